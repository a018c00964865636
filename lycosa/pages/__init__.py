"""The page table: what a shard has of each page it fetched."""
