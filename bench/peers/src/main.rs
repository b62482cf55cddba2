//! A check in process beside the peers: `speed`, or `memory [NAME KEYS]`; samples are printed as lines.
#![expect(clippy::print_stdout, reason = "whoever started it reads the samples")]

mod bare;
mod memory;
mod others;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["memory", store, keys] => memory::measure(store, keys.parse().expect("a number of keys")),
        ["memory"] => memory::run(),
        ["speed"] => others::speed(),
        _ => println!("write speed or memory"),
    }
}
