//! Prints what a commit costs on the disk of a directory.
//!
//! `cargo run --release -p engine --features bench --example engine_rate -- DIRECTORY [SECONDS]`
#![expect(clippy::print_stdout, reason = "a measurement is printed")]

use std::path::Path;
use std::time::Duration;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory is given");
    let seconds = arguments.next().map_or(3, |text| text.parse().expect("seconds are a number"));
    std::fs::create_dir_all(&directory).expect("the directory can be made");
    let rows = engine::bench::run(Path::new(&directory), Duration::from_secs(seconds)).await;
    println!("{:24} {:>10} {:>9} {:>9} {:>7}", "", "changes/s", "p50 ms", "p99 ms", "ratio");
    for row in rows.expect("the directory can be used") {
        let engine::bench::Row { name, per_second, p50_ms, p99_ms, ratio } = row;
        println!("{name:24} {per_second:10.0} {p50_ms:9.3} {p99_ms:9.3} {ratio:7.2}");
    }
}
