"""The page table: a summary of the fetches of each page that a shard fetched."""
