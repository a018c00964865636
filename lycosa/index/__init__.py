"""Which pages match, and which of them first? One tantivy index a shard, and a broker that asks them as one."""
