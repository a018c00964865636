"""What a crawl's agents need of the world around them: streams, keys, requests. See `protocol`."""
