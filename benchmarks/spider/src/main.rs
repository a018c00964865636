//! The crate `spider` as a contestant of the crawl benchmark: it crawls, counts and keeps nothing.
//!
//!     spider-contestant PAGES SEED...
//!
//! One `Website` per seed, all at once on one thread, robots.txt obeyed, no delay; each stops at its share of
//! PAGES. Every page is received from the crawl's channel as a user's program would receive it, and its bytes are
//! counted. The last line of standard output is JSON: pages and bytes.

use spider::tokio;
use spider::website::Website;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut words = std::env::args().skip(1);
    let pages: u32 = words.next().and_then(|word| word.parse().ok()).expect("PAGES");
    let seeds: Vec<String> = words.collect();
    let share = pages / seeds.len().max(1) as u32;
    let local = tokio::task::LocalSet::new();
    let crawls: Vec<_> = seeds
        .into_iter()
        .map(|seed| {
            local.spawn_local(async move {
                let mut site = Website::new(&seed);
                site.with_respect_robots_txt(true).with_delay(0).with_limit(share);
                let mut found = site.subscribe(1024);
                let counting = tokio::task::spawn_local(async move {
                    let (mut pages, mut bytes) = (0u64, 0u64);
                    while let Ok(page) = found.recv().await {
                        pages += 1;
                        bytes += page.get_html_bytes_u8().len() as u64;
                    }
                    (pages, bytes)
                });
                site.crawl().await;
                site.unsubscribe();
                drop(site);
                counting.await.unwrap_or((0, 0))
            })
        })
        .collect();
    let (mut pages, mut bytes) = (0u64, 0u64);
    local
        .run_until(async {
            for crawl in crawls {
                if let Ok((count, size)) = crawl.await {
                    pages += count;
                    bytes += size;
                }
            }
        })
        .await;
    println!("{{\"pages\": {pages}, \"bytes\": {bytes}}}");
}
