#!/usr/bin/env bash
# Handoff beside the simulator inference-lab 1.0.0 on that one's own kind of work, whole processes in turn, in one run.
# usage: sim/benches/peer/compare.sh [RUNS]     (installs the peer under target/peer the first time)
set -euo pipefail
cd "$(dirname "$0")/../../.."
runs=${1:-9}
target=${CARGO_TARGET_DIR:-target}
peer=$target/peer/bin/inference-lab
[ -x "$peer" ] || cargo install inference-lab --version 1.0.0 --locked --root "$target/peer"
cargo build --locked --release
here=sim/benches/peer
python3 - "$runs" \
    "$target/release/handoff simulate --scenario $here/scenario.toml --threads 1 --format json" \
    "$peer --quiet --config $here/model.toml --hardware h100 --workload $here/workload.toml" <<'PYTHON'
import statistics, subprocess, sys, time

runs, commands = int(sys.argv[1]), sys.argv[2:]
def seconds(command):
    start = time.perf_counter()
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start
for command in commands:
    seconds(command)
pairs = [[seconds(command) for command in commands] for _ in range(runs)]
tokens = 10_000 * 256
for name, times in zip(("handoff", "inference-lab"), zip(*pairs)):
    print(f"{name:14} {min(times):.3f} / {statistics.median(times):.3f} / {max(times):.3f} s (least, median, most), "
          f"{tokens / statistics.median(times) / 1e6:.1f} million decode tokens per second")
ratios = [peer / own for own, peer in pairs]
print(f"handoff is {min(ratios):.1f} / {statistics.median(ratios):.1f} / {max(ratios):.1f} times as fast (least, median, most of {runs} pairs)")
PYTHON
