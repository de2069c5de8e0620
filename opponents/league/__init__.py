"""The changes of a population during a run: results, promotion, selection and membership."""
