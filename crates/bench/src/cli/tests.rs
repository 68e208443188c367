use super::*;
use clap::CommandFactory;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn is_consistent() {
    Cli::command().debug_assert();
}

/// Every subcommand that people see shows an example and takes `--json`.
#[test]
fn every_help_has_an_example() {
    fn visit(command: &clap::Command, leaves: &mut usize) {
        for sub in command.get_subcommands().filter(|s| !s.is_hide_set() && s.get_name() != "help") {
            let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example: tocsin "), "{}", sub.get_name());
            if sub.has_subcommands() {
                visit(sub, leaves);
            } else {
                assert!(sub.get_arguments().any(|a| a.get_id() == "json"), "{}", sub.get_name());
                *leaves += 1;
            }
        }
    }
    let mut leaves = 0;
    visit(&Cli::command(), &mut leaves);
    assert_eq!(leaves, 19);
}

#[test]
fn unknown_values_say_which_exist() {
    for (line, wanted) in [
        ("tocsin bench overlap --backend smoke", "auto, uintr, signal, thread, poll"),
        ("tocsin bench overlap --lmt carrier", "auto, direct, xpmem, cma, knem, vmsplice, double"),
        ("tocsin bench overlap --case neither", "recv, send, both"),
        ("tocsin bench overlap --kind fiber", "process, thread"),
        ("tocsin bench overlap --bind left", "none, scatter or scatter_numa"),
        ("tocsin bench overlap --compute-us 4y", "4x"),
        ("tocsin bench overlap --sizes 64Q", "64K"),
        ("tocsin bench coll --op igossip", "ibarrier, ibcast, iscatter, iscatterv, igather"),
        ("tocsin bench coll --mode idle", "cpu-exploit, equivalent, alone"),
        ("tocsin bench latency --mechanism pigeon", "uintr, signal, futex, eventfd, cacheline"),
        ("tocsin bench latency --stack tall", "own, alternate, trampoline"),
        ("tocsin bench latency --burst 0", "at least 1 and at most 1000"),
        ("tocsin bench latency --ticks --self", "cannot be used with"),
        ("tocsin run -n 2 --on-failure cry -- true", "kill, report"),
        ("tocsin bench outstanding --completion smoke", "wait, callback"),
        ("tocsin bench outstanding --count 0", "at least 1"),
        ("tocsin bench rate --receives never", "early, late"),
        ("tocsin bench rate --window 0", "at least 1"),
        ("tocsin bench overlap --progress left", "none, bind, numa, smt or odd_even"),
        ("tocsin run -n 2 --progress left -- true", "none, bind, numa, smt or odd_even"),
        (
            "tocsin run -n 2 --schedule fifo -- true",
            "event, round-robin, suspend, semaphore or priority:<0-20>",
        ),
        (
            "tocsin bench coll --schedule priority:21",
            "event, round-robin, suspend, semaphore or priority:<0-20>",
        ),
        ("tocsin bench compare everything", "numa-bind, odd-even, policies, equivalent"),
        ("tocsin bench compare policies --op igossip", "ibarrier, ibcast, iscatter"),
        ("tocsin plan placement --bind left", "none, scatter or scatter_numa"),
        ("tocsin plan placement --progress left", "none, bind, numa, smt or odd_even"),
        ("tocsin plan placement --ranks 0", "at least 1 and at most 1024"),
        ("tocsin plan placement --ranks 2000", "at least 1 and at most 1024"),
        ("tocsin run -n -1 -- true", "-1 is not in 1..=1024"),
        ("tocsin plan schedule --op igossip", "ibarrier, ibcast"),
        ("tocsin plan schedule --op ibcast --model speed=3", "latency=1000"),
        ("tocsin plan schedule --op ibcast --model latency=-3", "no time up to a second"),
        ("tocsin plan split-tree --shape oak", "constant, doubling"),
        ("tocsin plan split-tree --ranks 1..99999", "more than 10000"),
        ("tocsin plan split-tree --cores 0", "0"),
        ("tocsin run -n 2 --trace-format svg -- true", "chrome, paje"),
        ("tocsin bench contention --kernel sort", "copy, triad"),
        ("tocsin bench contention --computing 1023", "at most 1022"),
        ("tocsin bench contention --repeat 0", "at least 1"),
        ("tocsin bench contention --array 3", "at least 64"),
    ] {
        let error = parse(line).unwrap_err();
        assert!(error.to_string().contains(wanted), "{line}: {error}");
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

#[test]
fn the_issues_commands_parse() {
    for line in [
        "tocsin info --json",
        "tocsin run -n 4 --bind scatter --backend signal --on-failure report --tag-output -- prog -x --json",
        "tocsin bench coll --op ibcast --algorithm binomial --ranks 4 --sizes 1K,64K --late-rank 2 --late-us 10000 --backend signal,poll --json",
        "tocsin bench coll --op iallreduce --mode alone --persistent --sizes 8,64K,1M --json",
        "tocsin bench coll --op iscan,iexscan,ireduce_scatter_block,ialltoallw --algorithm linear --sizes 8 --json",
        "tocsin bench overlap --case recv,both --compute-us 100,4x --sizes 64K,1M --plot out",
        "tocsin bench pingpong --sizes 0,8..4M",
        "tocsin bench outstanding --count 10,100,1000,10000 --completion wait,callback --json",
        "tocsin bench rate --window 1,64 --receives early,late --sizes 8,64,1K --kind process,thread --json",
        "tocsin bench pairs --kind thread --ranks 256 --json",
        "tocsin bench ring --ranks 4 --sizes 1K --json",
        "tocsin bench exchange --waits posts,sendrecv --sizes 64K,1M --json",
        "tocsin bench idle",
        "tocsin bench coll --op ibcast --backend thread --progress numa,bind --json",
        "tocsin plan split-tree --cores 64 --ranks 2..63 --shape doubling --json",
        "tocsin plan placement --ranks 6 --bind scatter_numa --progress odd_even --json",
        "tocsin run -n 4 --backend thread --progress numa --reserve 1 --schedule priority:20 -- prog",
        "tocsin bench coll --op iscan --ranks 16 --kind thread --backend thread --progress numa --reserve 1 --schedule suspend --json",
        "tocsin bench compare policies --ranks 16 --kind thread --schedule event,round-robin,priority:3 --json",
        "tocsin bench compare numa-bind --op ibcast,iallreduce --sizes 1K,64K --json",
        "tocsin bench compare odd-even --schedule round-robin",
        "tocsin bench compare equivalent --json",
        "tocsin plan placement --reserve 1 --progress numa",
        "tocsin bench latency",
        "tocsin bench latency --self --stack own,alternate,trampoline --burst 1..64 --mask --json",
        "tocsin bench contention --computing 0..3 --kernel copy,triad --repeat 1,8 --sizes 4,64K --json",
        "tocsin run -n 4 --trace t --trace-format paje --plot plots -- prog",
        "tocsin tune --quick --output table --kind process --at-once 1,2 --sizes 4K..1M --rounds 3 --json",
        "tocsin tune --what p2p,collectives --op ibcast,ireduce_scatter --ranks 2,4",
    ] {
        parse(line).unwrap();
    }
    assert!(parse("tocsin bench coll --late-rank 2").is_err());
    assert!(parse("tocsin run -n 0 -- true").is_err());
    assert!(parse("tocsin run -n 2").is_err());
}
