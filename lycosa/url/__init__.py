"""URL: the canonical form of URLs, their keys and registered domains, and the scope of a crawl."""
