use super::*;
use crate::row::Row;
use crate::stats::Times;

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::var_os("KEEP_TEST_PLOTS_IN").map_or_else(std::env::temp_dir, PathBuf::from);
    dir.join(format!("plot-{name}-{}", std::process::id()))
}

fn check(paths: &[PathBuf]) {
    assert_eq!(paths.len(), 2);
    let svg = std::fs::read_to_string(&paths[0]).unwrap();
    assert!(svg.contains("<svg") && svg.contains("tocsin 0."), "the machine is in the caption");
    assert_eq!(&std::fs::read(&paths[1]).unwrap()[..8], b"\x89PNG\r\n\x1a\n");
    if std::env::var_os("KEEP_TEST_PLOTS_IN").is_none() {
        std::fs::remove_dir_all(paths[0].parent().unwrap()).unwrap();
    }
}

#[test]
fn heat_map() {
    let mut rows = Vec::new();
    for (b, backend) in ["signal", "poll"].into_iter().enumerate() {
        for case in ["recv", "both"] {
            for (s, size) in [65536u64, 1 << 20, 4 << 20].into_iter().enumerate() {
                for (c, compute) in ["1x", "4x", "0.5x"].into_iter().enumerate() {
                    let ratio = b as f64 * 0.9 + 0.1 * s as f64 + 0.07 * c as f64 - 0.02;
                    rows.push(
                        Row::new("overlap")
                            .set("backend", backend)
                            .set("kind", "process")
                            .set("size_bytes", size)
                            .set("rounds", 30)
                            .set("case", case)
                            .set("compute", compute)
                            .number("ratio", ratio)
                            .number("null_ratio", if c + s == 3 { 0.3 } else { 0.01 }),
                    );
                }
            }
        }
    }
    check(&heat::draw(&scratch("heat"), &rows).unwrap());
    assert!(heat::draw(&scratch("none"), &[]).is_err());
}

#[test]
fn curves() {
    let series: Vec<curves::Series> = ["signal (process)", "poll (process)"]
        .into_iter()
        .enumerate()
        .map(|(at, name)| curves::Series {
            name: name.into(),
            points: [0.0, 8.0, 1024.0, 65536.0, 1048576.0]
                .into_iter()
                .map(|x: f64| (x, 1.0 + x / 8000.0 + at as f64 * 0.2))
                .collect(),
        })
        .collect();
    let chart = curves::Chart {
        file: "curves",
        title: "How long a message takes",
        subtitle: "Half a round trip; lower is better",
        x: "message size",
        y: "half round trip (µs)",
        x_is_bytes: true,
    };
    check(&curves::draw(&scratch("curves"), &chart, &series).unwrap());
    assert!(curves::draw(&scratch("none"), &chart, &[]).is_err());
}

/// As many names as there may be, at the bottom and at the top.
#[test]
fn many_curves() {
    let mut rows = Vec::new();
    for (backend, speed) in [("signal", 0.2), ("thread", 0.5), ("poll", 0.99)] {
        for computing in 0..5u64 {
            for (kernel, repeat) in [("copy", 1u64), ("triad", 1), ("triad", 8)] {
                for bytes in [4u64, 4096, 65536] {
                    let speed = speed + 0.002 * (computing * repeat) as f64;
                    rows.push(
                        Row::new("contention")
                            .set("backend", backend)
                            .set("kind", "process")
                            .set("size_bytes", bytes)
                            .set("computing", computing)
                            .set("kernel", kernel)
                            .set("repeat", repeat)
                            .number("speed", if bytes == 4 { 1.0 } else { speed }),
                    );
                }
            }
        }
    }
    let mut keys = curves::OF_PLAN.to_vec();
    keys.extend([("computing", " computing"), ("kernel", ""), ("repeat", "x")]);
    let series = curves::of_rows(&rows, &keys, "size_bytes", "speed");
    assert_eq!(series.len(), 3 * 5 * 3);
    // The kind is the same for all: it tells nothing.
    assert_eq!(series[1].name, "signal, 0 computing, triad, 1x");
    assert_eq!(series[1].points, [(4.0, 1.0), (4096.0, 0.2), (65536.0, 0.2)]);
    let chart = curves::Chart {
        file: "many-curves",
        title: "What is left",
        subtitle: "Speed beside computing / speed alone",
        x: "message size",
        y: "speed beside computing / alone",
        x_is_bytes: true,
    };
    check(&curves::draw(&scratch("many"), &chart, &series).unwrap());
    assert!(curves::of_rows(&rows, &keys, "size_bytes", "no such key").is_empty());
}

#[test]
fn spread() {
    let chart = super::spread::Chart {
        file: "spread",
        title: "Is a rank without traffic as fast as without the library?",
        subtitle: "Medians; the lines have eight of ten pairs",
        x: "speed with the library / without",
    };
    let one = |name: &str, low, median, high| super::spread::Spread { name: name.into(), low, median, high };
    let all = [
        one("signal, process", 0.99, 1.0, 1.004),
        one("poll, process, 16 ranks", 0.9, 0.96, 0.98),
        one("none, process", f64::NAN, 1.0, f64::NAN),
    ];
    check(&super::spread::draw(&scratch("spread"), &chart, &all).unwrap());
    // Nothing but ones still has an axis.
    check(&super::spread::draw(&scratch("spread"), &chart, &[one("signal", 1.0, 1.0, 1.0)]).unwrap());
    assert!(super::spread::draw(&scratch("none"), &chart, &[]).is_err());
}

#[test]
fn steps() {
    use crate::steps::{Arrow, OfRank, Span, Step, Steps};
    let span = |begun, ends| Span { begun, ends };
    let rank = |rank: u32| OfRank {
        rank,
        whole: Some(span(f64::from(rank), 40.0)),
        steps: ["send", "recv", "copy", "reduce", "join"]
            .into_iter()
            .zip(0..)
            .map(|(kind, n)| Step {
                span: span(f64::from(n * 6), f64::from(n * 6 + 8)),
                kind: kind.into(),
                peer: None,
                bytes: 4096,
            })
            .collect(),
        states: vec![
            (span(0.0, 20.0), "computing".into()),
            (span(8.0, 10.0), "handler".into()),
            (span(20.0, 40.0), "library".into()),
        ],
    };
    let steps = Steps {
        operation: "iallreduce".into(),
        algorithm: "ring".into(),
        took: 40.0,
        ranks: (0..70).map(rank).collect(),
        arrows: vec![Arrow { from: (0, 2.0), to: (3, 9.0) }, Arrow { from: (0, 2.0), to: (69, 9.0) }],
    };
    check(&super::steps::draw(&scratch("steps"), "steps", ", signal", &steps).unwrap());
}

#[test]
fn latency() {
    let mut measured = Vec::new();
    for panel in ["two processes, near cores", "two threads, near cores"] {
        for (name, middle) in [("signal", 2400u64), ("futex", 9000), ("cacheline", 140)] {
            let mut times = Times::default();
            for i in 0..2000u64 {
                times.add(middle + (i * i) % (middle / 3));
            }
            times.add(middle * 50);
            measured.push((panel, name, times));
        }
    }
    let all: Vec<_> = measured
        .iter()
        .map(|(panel, name, times)| super::latency::Distribution {
            panel: (*panel).into(),
            name: (*name).into(),
            times,
        })
        .collect();
    check(&super::latency::draw(&scratch("latency"), &all).unwrap());
}
