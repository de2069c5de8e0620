"""What a run leaves for others: its policy as a folder for the Hugging Face Hub, its games and decisions as parquet."""
