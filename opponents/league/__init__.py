"""How a population changes during a run: results, promotion, selection and membership."""
