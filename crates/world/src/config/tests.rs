//! The table of variables: every right value is taken, every wrong one is an error that names the right ones.

use super::*;

fn read(name: &str, value: &str) -> Result<Config, Error> {
    Config::from_variables([(OsString::from(name), OsString::from(value))])
}

#[test]
fn right_values_are_taken_and_survive_the_way_to_another_process() {
    let table = std::env::temp_dir().join(format!("tocsin-tune-of-the-config-{}", std::process::id()));
    let text = format!("tocsin-tune 1\nmachine {}\nprocess 1 16384 cma 0\nend 1\n", crate::tune::machine());
    std::fs::write(&table, text).unwrap();
    let table = table.to_str().unwrap();
    let rows: &[(&str, &[&str])] = &[
        ("TOCSIN_BACKEND", &["auto", "uintr", "signal", "thread", "poll"]),
        ("TOCSIN_SIGNAL", &["URG", "SIGURG", "USR1", "SIGUSR2", "IO", "WINCH", "40", "23"]),
        ("TOCSIN_EAGER_MAX", &["0", "64", "8K", "32K", "32768"]),
        ("TOCSIN_UNEXPECTED_MAX", &["64K", "64M", "1G"]),
        ("TOCSIN_LMT", &["auto", "direct", "cma", "knem", "vmsplice", "double"]),
        ("TOCSIN_HEAP", &["0", "64M", "16384G"]),
        ("TOCSIN_TUNE", &[table]),
        ("TOCSIN_BIND", &["none", "scatter", "scatter_numa"]),
        ("TOCSIN_PROGRESS", &["none", "bind", "numa", "smt", "odd_even"]),
        ("TOCSIN_RESERVE", &["0", "1", "40"]),
        ("TOCSIN_SCHEDULE", &["event", "round-robin", "suspend", "semaphore", "priority:0", "priority:20"]),
        ("TOCSIN_TOPOLOGY", &["numa:2 core:4 pu:1", "pu:3"]),
        ("TOCSIN_TRACE", &["trace.json", "/tmp/trace.json"]),
        ("TOCSIN_TRACE_FORMAT", &["auto", "chrome", "paje"]),
    ];
    let public: Vec<_> = VARIABLES.iter().filter(|v| !v.internal).map(|v| v.name).collect();
    let tested: Vec<_> = rows.iter().map(|r| r.0).collect();
    assert_eq!(public, tested, "every public variable has a row");
    for (name, values) in rows {
        for value in *values {
            let config = read(name, value).unwrap();
            let again = Config::from_variables(
                config.to_variables().into_iter().map(|(n, v)| (OsString::from(n), OsString::from(v))),
            )
            .unwrap();
            assert_eq!(config, again, "{name}={value}");
        }
    }
    std::fs::remove_file(table).unwrap();
}

#[test]
fn a_table_that_is_refused_says_why() {
    let text = read("TOCSIN_TUNE", "/no/such/table").unwrap_err().to_string();
    assert!(
        text.contains("/no/such/table cannot be read") && text.contains("tocsin tune --output"),
        "{text}"
    );
}

#[test]
fn wrong_values_name_the_right_ones() {
    let rows = [
        ("TOCSIN_BACKEND", "smoke"),
        ("TOCSIN_BACKEND", ""),
        ("TOCSIN_SIGNAL", "KILL"),
        ("TOCSIN_HEAP", "16385G"),
        ("TOCSIN_SIGNAL", "9"),
        ("TOCSIN_SIGNAL", "999"),
        ("TOCSIN_EAGER_MAX", "1T"),
        ("TOCSIN_EAGER_MAX", "-1"),
        ("TOCSIN_EAGER_MAX", "+1"),
        ("TOCSIN_EAGER_MAX", "64K"),
        ("TOCSIN_EAGER_MAX", "99999999999999999999K"),
        ("TOCSIN_UNEXPECTED_MAX", "1K"),
        ("TOCSIN_UNEXPECTED_MAX", "K"),
        ("TOCSIN_LMT", "carrier"),
        ("TOCSIN_TUNE", ""),
        ("TOCSIN_TUNE", "/no/such/table"),
        ("TOCSIN_TUNE", "/dev/null"),
        ("TOCSIN_BIND", "everywhere"),
        ("TOCSIN_PROGRESS", "fast"),
        ("TOCSIN_RESERVE", ""),
        ("TOCSIN_RESERVE", "-1"),
        ("TOCSIN_RESERVE", "+1"),
        ("TOCSIN_RESERVE", "half"),
        ("TOCSIN_SCHEDULE", ""),
        ("TOCSIN_SCHEDULE", "fifo"),
        ("TOCSIN_SCHEDULE", "priority"),
        ("TOCSIN_SCHEDULE", "priority:21"),
        ("TOCSIN_TOPOLOGY", ""),
        ("TOCSIN_TOPOLOGY", "core:0"),
        ("TOCSIN_TOPOLOGY", "brain:2"),
        ("TOCSIN_TRACE", ""),
        ("TOCSIN_TRACE", "/no/such/directory/trace"),
        ("TOCSIN_TRACE_FORMAT", "svg"),
    ];
    for (name, value) in rows {
        let error = read(name, value).unwrap_err();
        assert!(matches!(error, Error::Environment { .. }), "{name}={value}: {error:?}");
        let text = error.to_string();
        let table = VARIABLES.iter().find(|v| v.name == name).unwrap();
        assert!(text.contains(name) && text.contains(table.values), "{text}");
    }
}

#[test]
fn unknown_variables_are_errors_that_list_the_known_ones() {
    let text = read("TOCSIN_BAKEND", "poll").unwrap_err().to_string();
    for variable in VARIABLES.iter().filter(|v| !v.internal) {
        assert!(text.contains(variable.name), "{text}");
    }
    assert!(text.contains("TOCSIN_BAKEND"));
}

#[test]
fn other_variables_are_none_of_our_business() {
    assert_eq!(read("TOCSINX", "poll").unwrap(), Config::default());
    assert_eq!(read("PATH", "/bin").unwrap(), Config::default());
}

#[test]
fn seats() {
    let mut config = read("TOCSIN_TOPOLOGY", "numa:2 core:4 pu:1").unwrap();
    assert_eq!(config.seats(2).unwrap(), [Seat::default(); 2]);
    config.bind = Bind::ScatterNuma;
    config.progress = ProgressPlacement::Numa;
    let at = |cpu, progress| Seat { cpu: Some(cpu), progress: Some(progress) };
    assert_eq!(config.seats(3).unwrap(), [at(0, 1), at(2, 3), at(4, 5)]);
    // Refused, and only where it would be of use.
    config.progress = ProgressPlacement::Smt;
    assert_eq!(config.seats(1).unwrap(), [Seat { cpu: Some(0), progress: None }]);
    config.backend = Some(BackendKind::Thread);
    let text = config.seats(1).unwrap_err().to_string();
    assert!(text.contains("smt") && text.contains("hardware thread"), "{text}");
    config.topology = Some("core:x".into());
    assert!(config.seats(1).unwrap_err().to_string().contains("core:x"));
}

#[test]
fn reserved_cores_and_who_shares_a_core() {
    let mut config = read("TOCSIN_TOPOLOGY", "core:4").unwrap();
    (config.bind, config.progress, config.reserve) = (Bind::Scatter, ProgressPlacement::Numa, 1);
    config.backend = Some(BackendKind::Thread);
    let at = |cpu| Seat { cpu: Some(cpu), progress: Some(3) };
    let seats = config.seats(3).unwrap();
    assert_eq!(seats, [at(0), at(1), at(2)]);
    assert_eq!(sharers_of(&seats, seats[1], config.progress), 3);
    assert_eq!(sharers_of(&seats, seats[1], ProgressPlacement::Bind), 1);
    assert_eq!(sharers_of(&[Seat::default(); 3], Seat::default(), ProgressPlacement::None), 1, "not bound");
    config.reserve = 4;
    assert!(config.seats(3).unwrap_err().to_string().contains("4 cores cannot be reserved"));
    (config.reserve, config.bind, config.progress) = (1, Bind::None, ProgressPlacement::None);
    assert!(config.seats(3).unwrap_err().to_string().contains("bind them by scatter"));
}

#[test]
fn uintr_is_refused_with_its_reason() {
    let config = read("TOCSIN_BACKEND", "uintr").unwrap();
    let text = config.usable_backend().unwrap_err().to_string();
    assert!(text.contains("uintr") && text.contains("signal"), "{text}");
    assert_eq!(Config::default().usable_backend().unwrap(), BackendKind::Signal);
}

/// However much memory the machine has, and however many ranks there are.
#[test]
fn every_world_can_have_the_heap_that_nobody_chose() {
    use tocsin_shm_transport::{Geometry, MAX_RANKS};
    for memory in
        [0, 4096, 25_202_941_952, (256 << 30) - 4096, 512 << 30, 1 << 40, 2 << 40, 16 << 40, u64::MAX]
    {
        for ranks in 1..=MAX_RANKS {
            let arena = default_arena(memory, ranks);
            let geometry = Geometry::for_ranks(ranks).with_heap(arena);
            assert!(arena <= memory && geometry.is_some(), "{memory} bytes, {ranks} ranks: {arena}");
        }
    }
}

/// Neither as a name nor as a value.
#[test]
fn what_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let bytes = |text: &[u8]| OsString::from_vec(text.to_vec());
    let read = |name: &[u8], value: &[u8]| Config::from_variables([(bytes(name), bytes(value))]);
    let name = read(b"TOCSIN_B\xffCKEND", b"poll");
    assert!(matches!(name, Err(Error::UnknownVariable { .. })), "{name:?}");
    let value = read(b"TOCSIN_TRACE", b"/tmp/\xff").unwrap_err().to_string();
    assert!(value.contains("TOCSIN_TRACE") && value.contains("UTF-8"), "{value}");
    assert!(read(b"OTHER_\xff", b"\xff").is_ok());
}
