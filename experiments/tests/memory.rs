//! Memory grows with requests in flight, not with tokens simulated.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::process::{Command, Stdio};
use std::time::Duration;

/// Peak resident memory in KiB of a run that measures `requests` requests of 2,048 tokens in each of two replications.
fn peak_kib(requests: u32) -> u64 {
    let mut run = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["simulate", "--scenario", "a100-paper", "--threads", "1", "--set", "workload.concurrency=16"])
        .args(["--set", "workload.warmup=16", "--set", "workload.replications_min=2"])
        .args(["--set", "workload.replications_max=2", "--set", &format!("workload.requests={requests}")])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", run.id());
    let mut peak = 0;
    while run.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = kib.unwrap_or(0).max(peak);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(run.wait().unwrap().success());
    assert!(peak > 0, "the peak was never seen");
    peak
}

#[test]
fn ten_times_the_tokens_take_no_more_memory() {
    let (short, long) = (peak_kib(400), peak_kib(4_000));
    assert!(long < 200 * 1024, "a run of 1.6e7 tokens took {long} KiB");
    assert!(long < short + short / 4, "{short} KiB for 1.6e6 tokens, {long} KiB for 1.6e7");
}
