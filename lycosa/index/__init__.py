"""Which pages match, and which of them come first? One tantivy index per shard, and a broker that unites them."""
