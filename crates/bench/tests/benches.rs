//! The rows of each bench.
#![allow(clippy::unwrap_used)] // a test

mod lines;

use lines::{has, rows};
use serde_json::Value;
use tocsin_world::{cma_refusal, vmsplice_refusal};

/// Both ways to compute, with what each row has.
#[test]
fn contention() {
    let line = "bench contention --json --rounds 2 --warmup 0 --array 4K --kind process,thread --backend signal,poll";
    let rows = rows(&format!("{line} --computing 0,1 --kernel copy,triad --repeat 1,8 --sizes 0,4,100K"));
    // Kinds, backends, computing, a copy and two triads, sizes.
    assert_eq!(rows.len(), 2 * 2 * 2 * 3 * 3);
    for row in &rows {
        has(
            row,
            "bench backend kind ranks lmt size_bytes rounds kernel repeat flop_per_byte array_bytes computing",
        );
        has(
            row,
            "messages passes t_comp_us t_comp_beside_us compute_speed_ratio null_speed_ratio compute_gbps",
        );
        has(row, "t_comm_us t_comm_beside_us comm_speed_ratio verified");
        let computing = row["computing"].as_u64().unwrap();
        assert_eq!(row["ranks"], computing + 2);
        assert_eq!(row.get("interrupts").is_some(), computing == 0, "{row}");
        assert_eq!(row.get("bandwidth_gbps").is_some(), row["size_bytes"] != 0, "{row}");
        assert!(
            row["compute_speed_ratio"].as_f64().unwrap() > 0.0
                && row["comm_speed_ratio"].as_f64().unwrap() > 0.0
        );
        let intensity = if row["kernel"] == "copy" { 0.0 } else { row["repeat"].as_f64().unwrap() / 12.0 };
        assert!((row["flop_per_byte"].as_f64().unwrap() - intensity).abs() < 1e-5, "{row}");
    }
}

#[test]
fn latency() {
    let rows = rows("bench latency --json --rounds 300");
    if rows.is_empty() {
        // No two processors that differ.
        assert_eq!(std::thread::available_parallelism().unwrap().get(), 1);
        return;
    }
    let mechanisms = ["signal", "futex", "eventfd", "cacheline"];
    for kind in ["process", "thread"] {
        for mechanism in mechanisms {
            let row = rows.iter().find(|r| r["kind"] == kind && r["mechanism"] == mechanism).unwrap();
            has(row, "bench ranks rounds placement mean_ns std_ns min_ns p10_ns p50_ns p95_ns p99_ns max_ns");
            assert!(row["min_ns"].as_f64().unwrap() > 0.0);
        }
    }
}

const STATISTICS: &str = "mean_ns std_ns min_ns p10_ns p50_ns p95_ns p99_ns max_ns";

/// To oneself nothing is on its way when a post has returned: each has its run.
#[test]
fn latency_to_oneself() {
    let dir = std::env::temp_dir().join(format!("tocsin-latency-{}", std::process::id()));
    let line = "bench latency --self --mechanism signal --stack own,alternate --burst 1,5 --mask --json --rounds 300";
    let rows = rows(&format!("{line} --plot {}", dir.display()));
    assert_eq!(rows.len(), 2 * 2);
    for row in &rows {
        has(row, "bench backend kind ranks rounds mechanism placement stack burst handlers");
        has(row, STATISTICS);
        has(row, "masks mask_ns_min mask_ns_p50");
        assert!(row["placement"] == "self" && row["ranks"] == 1 && row["rounds"] == 300, "{row}");
        assert_eq!(row["handlers"].as_f64(), row["burst"].as_f64(), "{row}");
        // Two system calls.
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!(number("mask_ns_min") > 10.0 && number("mask_ns_p50") >= number("mask_ns_min"), "{row}");
    }
    assert!(dir.join("latency.png").exists() && dir.join("latency.svg").exists());
    std::fs::remove_dir_all(dir).unwrap();
}

/// To another processor they may collapse.
#[test]
fn latency_of_bursts() {
    if std::thread::available_parallelism().unwrap().get() == 1 {
        return;
    }
    let rows = rows("bench latency --mechanism signal --burst 1,2,16 --json --rounds 300");
    assert!(!rows.is_empty() && rows.len().is_multiple_of(3));
    for row in &rows {
        has(row, "kind ranks placement stack burst handlers");
        has(row, STATISTICS);
        assert!(row["stack"] == "alternate" && row.get("masks").is_none(), "{row}");
        let (burst, handlers) = (row["burst"].as_f64().unwrap(), row["handlers"].as_f64().unwrap());
        assert!(1.0 <= handlers && handlers <= burst && (burst > 1.0 || handlers == 1.0), "{row}");
    }
}

#[test]
fn pingpong() {
    let line = "bench pingpong --json --rounds 2 --warmup 0 --sizes 0,8,100K --kind process,thread --backend signal,poll";
    let rows = rows(line);
    assert_eq!(rows.len(), 3 * 2 * 2);
    for row in &rows {
        has(
            row,
            "bench backend kind ranks lmt size_bytes rounds half_rtt_us_min half_rtt_us_p50 bytes_once_by",
        );
        let large = row["size_bytes"] == 102_400;
        let lmt = row["lmt"].as_str().unwrap();
        for (way, of) in [("memory", "direct"), ("kernel", "cma"), ("knem", "knem"), ("pages", "vmsplice")] {
            let bytes = row["bytes_once_by"].get(way).map_or(0.0, |bytes| bytes.as_f64().unwrap());
            let may = large && (lmt == of || way == "memory" && lmt == "xpmem");
            // Who waits may choose two copies, where none is forced.
            assert!(bytes == 0.0 || may && bytes <= 102_400.0, "{row}");
        }
    }
}

/// A strategy that is forced carries all that is large, and the row says so.
#[test]
fn pingpong_says_by_which_way() {
    let line = "bench pingpong --json --rounds 2 --warmup 1 --sizes 100K,4M";
    for (how, ways) in [
        ("--kind thread --lmt direct", ["memory"].as_slice()),
        ("--kind process --lmt direct --buffers shared", &["memory"]),
        ("--kind process,thread --lmt double", &[]),
        ("--kind process --lmt cma", if cma_refusal().is_none() { &["kernel"] } else { &[] }),
        ("--kind process --lmt vmsplice", if vmsplice_refusal().is_none() { &["pages"] } else { &[] }),
    ] {
        let rows = rows(&format!("{line} {how}"));
        assert_eq!(rows.len(), 2 * how.split(',').count(), "{how}");
        for row in rows {
            for way in ["memory", "kernel", "knem", "pages"] {
                let bytes = row["bytes_once_by"].get(way).map_or(0.0, |bytes| bytes.as_f64().unwrap());
                let share = bytes / row["size_bytes"].as_f64().unwrap();
                // Of pages the system takes fewer now and then.
                let right = if ways.contains(&way) { (0.5..=1.001).contains(&share) } else { bytes == 0.0 };
                assert!(right, "{how}: {row}");
            }
        }
    }
}

/// A row has the number, or why there is none.
#[test]
fn pingpong_counts_events_or_says_why_not() {
    let events = ["page-faults", "context-switches", "cache-misses", "cache-references"];
    for (event, lmt) in events.into_iter().flat_map(|event| [(event, "cma"), (event, "double")]) {
        let line = "bench pingpong --json --rounds 2 --warmup 0 --sizes 64K,4M --kind process,thread";
        let rows = rows(&format!("{line} --lmt {lmt} --count {event}"));
        assert_eq!(rows.len(), 4);
        for row in rows {
            assert_eq!(row["event"], event);
            let counted = row.get("events_per_message").and_then(Value::as_f64);
            let why = row.get("not_counted").and_then(Value::as_str);
            match (counted, why) {
                (Some(counted), None) => assert!(counted >= 0.0, "{row}"),
                (None, Some(why)) => assert!(why.contains(event) || why.contains("perf_event_open"), "{row}"),
                _ => panic!("one of the two: {row}"),
            }
        }
    }
    let rows = rows("bench pingpong --json --rounds 2 --warmup 0 --sizes 8");
    assert_eq!(rows.len(), 1);
    assert!(rows.iter().all(|row| row.get("event").is_none() && row.get("not_counted").is_none()));
}

/// Two play, the others wait inside the library.
#[test]
fn pingpong_of_more_than_two() {
    let rows =
        rows("bench pingpong --json --rounds 2 --warmup 0 --sizes 8,100K --ranks 2,4 --backend signal,poll");
    assert_eq!(rows.len(), 2 * 2 * 2);
    assert_eq!(rows.iter().filter(|row| row["ranks"] == 4).count(), 4);
    rows.iter().for_each(|row| has(row, "half_rtt_us_min half_rtt_us_p50 verified"));
}

#[test]
fn ring() {
    let line = "bench ring --json --rounds 2 --warmup 0 --sizes 0,8,100K --ranks 2,3 --kind process,thread";
    let rows = rows(&format!("{line} --backend signal,thread,poll"));
    assert_eq!(rows.len(), 3 * 2 * 2 * 3);
    for row in &rows {
        has(row, "bench backend kind ranks lmt size_bytes rounds laps hop_us_min hop_us_p50 verified");
        assert!(row["hop_us_min"].as_f64().unwrap() > 0.0);
    }
}

/// Windows that the lane holds and ones that it does not, messages of every kind.
#[test]
fn rate() {
    let line = "bench rate --json --rounds 2 --warmup 0 --sizes 0,8,1K --kind process,thread --window 3,700 \
                --receives early,late,computing";
    let mut all = rows(&format!("{line} --backend signal,thread,poll"));
    // Sizes, kinds, backends, windows, times of receives.
    let of_two = 3 * 2 * 3 * 2 * 3;
    assert_eq!(all.len(), of_two);
    all.extend(rows("bench rate --json --rounds 1 --warmup 0 --ranks 4 --sizes 100K --window 5"));
    assert_eq!(all.len(), of_two + 2);
    for row in &all {
        has(row, "bench backend kind ranks lmt size_bytes rounds receives window windows");
        has(row, "message_ns_min message_ns_p50 messages_per_s interrupts verified");
        let (each, rate) = (row["message_ns_p50"].as_f64().unwrap(), row["messages_per_s"].as_f64().unwrap());
        let pairs = row["ranks"].as_f64().unwrap() / 2.0;
        assert!((each * rate / 1e9 / pairs - 1.0).abs() < 0.01, "{row}");
    }
}

/// Every way to learn of a completion, with eager messages and with large ones.
#[test]
fn outstanding() {
    let line =
        "bench outstanding --json --rounds 2 --warmup 0 --count 3,100,2000 --sizes 8 --kind process,thread";
    let mut all = rows(&format!("{line} --backend signal,thread,poll"));
    // Kinds, backends, numbers, ways.
    let of_eager = 2 * 3 * 3 * 2;
    assert_eq!(all.len(), of_eager);
    all.extend(rows(
        "bench outstanding --json --rounds 1 --warmup 0 --count 20 --sizes 0,100K --backend signal,poll",
    ));
    assert_eq!(all.len(), of_eager + 2 * 2 * 2);
    for row in &all {
        has(row, "bench backend kind ranks lmt size_bytes rounds outstanding completion batches");
        has(row, "request_ns_min request_ns_p50 post_ns_p50 to_first interrupts verified");
        // The first is compared with itself.
        let first = [3, 20].contains(&row["outstanding"].as_i64().unwrap());
        assert!(!first || (row["to_first"].as_f64().unwrap() - 1.0).abs() < 0.001, "{row}");
        assert!(row["completion"] == "wait" || row["completion"] == "callback");
    }
}

/// What is allocated of the segment is exact: a pair that talks takes its lanes, one that is silent nothing.
#[test]
fn pairs() {
    let line = "bench pairs --json --rounds 1 --warmup 0 --backend signal,poll";
    let all = rows(&format!("{line} --ranks 12 --kind process,thread"));
    assert_eq!(all.len(), 2 * 2);
    for row in all {
        has(
            &row,
            "bench backend kind ranks lmt size_bytes rounds setup_ms rank_bytes_shared rank_bytes_private",
        );
        has(&row, "silent_pair_bytes_shared silent_pair_bytes_private silent_pair_bytes_heap");
        has(&row, "neighbour_pair_bytes_shared pair_bytes_shared pair_bytes_private");
        has(&row, "first_exchange_ms exchange_ms_p50 verified");
        let number = |key: &str| row[key].as_f64().unwrap();
        // Worlds of 6, 9 and 12 ranks end within a page each.
        assert!(number("silent_pair_bytes_shared").abs() <= 2.0 * 4.0 * 4096.0 / 18.0, "{row}");
        assert!(number("pair_bytes_shared") >= 4096.0, "{row}");
        assert!(
            (number("neighbour_pair_bytes_shared") / number("pair_bytes_shared") - 1.0).abs() < 0.01,
            "{row}"
        );
    }
    // A page for each of 256 would be 32 bytes a pair; of the heap a bit in a set or two, and lists that double.
    let row = &rows(&format!("{line} --ranks 256 --kind thread"))[0];
    let silent = |of: &str| row[format!("silent_pair_bytes_{of}")].as_f64().unwrap().abs();
    assert!(silent("shared") <= 1.0 && silent("heap") <= 6.0, "{row}");
    // Two ranks are one pair, and have no smaller worlds to compare with.
    let row = &rows(&format!("{line} --ranks 2"))[0];
    assert!(
        row.get("silent_pair_bytes_shared").is_none() && row["pair_bytes_shared"].as_f64().unwrap() > 0.0
    );
}

#[test]
fn overlap() {
    let dir = std::env::temp_dir().join(format!("tocsin-overlap-{}", std::process::id()));
    let line = "bench overlap --json --rounds 3 --warmup 1 --sizes 1K,200K --case recv,send,both --compute-us 100,2x";
    let rows = rows(&format!("{line} --backend signal,thread,poll --plot {}", dir.display()));
    assert_eq!(rows.len(), 3 * 2 * 3 * 2);
    for row in &rows {
        has(
            row,
            "bench backend kind ranks lmt size_bytes rounds case compute_us t_comm_us t_comp_us t_ovrl_us ratio",
        );
        has(row, "null_ratio rate_percent bound_us efficiency peer_blocked_us interrupts bytes_copied_by");
        let both = row["case"] == "both";
        assert!(
            ["complete_us", "complete_us_max", "efficiency_called"]
                .iter()
                .all(|key| row.get(key).is_some() == both),
            "{row}"
        );
    }
    assert!(dir.join("overlap.png").exists() && dir.join("overlap.svg").exists());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn collectives() {
    let rows =
        rows("bench coll --json --ranks 1..3 --rounds 2 --warmup 0 --sizes 7,40K --kind process,thread");
    assert_eq!(rows.len(), 3 * 2 * (1 + 3 * 2));
    for row in &rows {
        has(row, "op algorithm mode t_comm_us t_comp_us t_ovrl_us ratio rate_percent verified");
    }
}

/// Each verifies what it receives.
#[test]
fn every_collective() {
    let all = "ibarrier,ibcast,iscatter,iscatterv,igather,igatherv,iallgather,iallgatherv,ialltoall,ialltoallv,ialltoallw,\
               ireduce,iallreduce,ireduce_scatter,ireduce_scatter_block,iscan,iexscan";
    let line = format!("bench coll --json --op {all} --rounds 1 --warmup 0 --kind thread --backend signal");
    let rows = rows(&format!("{line} --ranks 1,3,4 --root 0 --sizes 0,7,8000"));
    assert_eq!(rows.len(), 3 * (1 + 16 * 3));
    assert!(rows.iter().all(|row| row["verified"] == true));
}

/// Collectives alone and restarted ones, in every mode: each verifies what it receives, whose content changes each time.
#[test]
fn collectives_alone_and_prepared_ones() {
    let all = "ibarrier,ibcast,iallgatherv,ialltoall,iallreduce,ireduce_scatter,iscan";
    for (mode, keys) in [
        ("--mode alone", "operations t_comm_us t_comm_us_min in_a_row_us interrupts"),
        ("--mode alone --persistent", "operations t_comm_us in_a_row_us persistent"),
        ("--persistent", "t_comm_us t_ovrl_us ratio persistent"),
        ("--late-rank 1 --late-us 500 --persistent", "others_done_us persistent"),
    ] {
        let line =
            format!("bench coll --json --op {all} --rounds 2 --warmup 0 --ranks 3 --sizes 8,40K {mode}");
        let rows = rows(&format!("{line} --kind process,thread"));
        assert_eq!(rows.len(), 2 * (1 + 6 * 2), "{mode}");
        for row in &rows {
            has(row, keys);
            assert_eq!(row["verified"], true);
            assert_eq!(row.get("persistent").is_some(), mode.contains("--persistent"), "{row}");
        }
    }
}

/// Each bench draws what it measured.
#[test]
fn every_bench_plots() {
    let dir = std::env::temp_dir().join(format!("tocsin-plots-{}", std::process::id()));
    for (line, files) in [
        (
            "contention --computing 0 --repeat 1,8 --array 4K --sizes 4,4K",
            &[
                "contention-communication",
                "contention-communication-intensity",
                "contention-computing",
                "contention-computing-intensity",
            ][..],
        ),
        (
            "contention --computing 0 --array 4K --sizes 4",
            &["contention-communication", "contention-computing"],
        ),
        ("ring --ranks 2,3 --sizes 8,1K", &["ring"]),
        ("exchange --ranks 2,3 --sizes 8,64K", &["exchange"]),
        ("rate --sizes 8,64", &["rate"]),
        ("rate --sizes 8 --window 1,64", &["rate"]),
        ("outstanding --count 10,100", &["outstanding"]),
        ("idle --slice-us 200 --ranks 2", &["idle"]),
        ("pairs --ranks 2,3", &["pairs"]),
        ("compare policies --ranks 2 --schedule event,suspend", &["compare"]),
    ] {
        let line =
            format!("bench {line} --kind thread --json --rounds 2 --warmup 0 --plot {}", dir.display());
        assert!(!rows(&line).is_empty(), "{line}");
        let mut drawn: Vec<String> = std::fs::read_dir(&dir)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        drawn.sort();
        let mut wanted: Vec<String> =
            files.iter().flat_map(|file| [format!("{file}.png"), format!("{file}.svg")]).collect();
        wanted.sort();
        assert_eq!(drawn, wanted, "{line}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn late_rank() {
    let line = "bench coll --json --op ibcast --algorithm binomial --ranks 4 --sizes 1K --late-rank 2";
    let rows = rows(&format!("{line} --late-us 3000 --rounds 2 --backend signal,poll"));
    assert_eq!(rows.len(), 2);
    for row in &rows {
        has(row, "op algorithm mode others_done_us verified");
        assert_eq!(row["mode"], "late");
    }
}

#[test]
fn idle() {
    let rows = rows("bench idle --json --rounds 3 --slice-us 200 --ranks 2 --backend signal,poll");
    assert_eq!(rows.len(), 2);
    for row in &rows {
        has(row, "bench backend kind ranks speed_ratio");
    }
}
