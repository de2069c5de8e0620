"""Methods compared on equal steps of the same tasks, over seeds, with what is and what is not significant."""
