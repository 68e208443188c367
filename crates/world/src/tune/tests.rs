//! Tables that come back, and files that are none.

use super::*;
use crate::algorithms::Operation;

const HERE: &str = "a processor, 2 processors";

fn text(rows: &str) -> String {
    let end = rows.lines().count();
    format!("tocsin-tune 5\nmachine {HERE}\n# a comment\n\n{}\nend {end}\n", rows.trim_end())
}

#[test]
fn a_table_comes_back() {
    let row = |ranks, at_once, strategy, relation| Row {
        ranks,
        at_once,
        eager_max: 8192,
        strategy,
        from: 32768,
        relation,
    };
    let rows = vec![
        row(Ranks::Processes, 1, Lmt::Cma, None),
        row(Ranks::Processes, 1, Lmt::Cma, Some(Relation::Cache)),
        row(Ranks::Processes, 1, Lmt::Double, Some(Relation::Across)),
        row(Ranks::Threads, 1, Lmt::Direct, Some(Relation::Node)),
        row(Ranks::Processes, 4, Lmt::Double, None),
    ];
    let collective = |ranks, size, algorithm| Collective {
        operation: Operation::Ibcast,
        ranks,
        size,
        from: 8,
        algorithm,
        relation: None,
    };
    let collectives = vec![
        collective(Ranks::Threads, 2, Some("chain")),
        collective(Ranks::Processes, 1024, Some("linear")),
        collective(Ranks::Threads, 3, None),
        Collective { relation: Some(Relation::Across), ..collective(Ranks::Threads, 3, Some("4-ary")) },
    ];
    let table = Table::new(rows.clone(), collectives.clone()).unwrap();
    assert_eq!((table.rows(), table.collectives()), (&rows[..], &collectives[..]));
    assert_eq!(Table::parse(&table.to_string(), &machine()), Ok(table.clone()));
    assert_eq!(Table::parse(&table.text("a note\nend 1"), &machine()), Ok(table));
    // One kind of rows alone is a table too.
    for table in [Table::new(rows, Vec::new()), Table::new(Vec::new(), collectives)] {
        let table = table.unwrap();
        assert_eq!(Table::parse(&table.to_string(), &machine()), Ok(table));
    }
}

/// Wherever a file is cut, also within a number or between two lines, what is left is no table.
#[test]
fn a_part_of_a_table_is_none() {
    let row = |at_once| Row {
        ranks: Ranks::Processes,
        at_once,
        eager_max: 8192,
        strategy: Lmt::Cma,
        from: 32768,
        relation: if at_once % 2 == 0 { None } else { Some(Relation::Node) },
    };
    let chain = Collective {
        operation: Operation::Ibcast,
        ranks: Ranks::Processes,
        size: 2,
        from: 0,
        algorithm: Some("chain"),
        relation: None,
    };
    let far = Some(Relation::Across);
    let collectives =
        [chain, Collective { from: 4096, algorithm: None, ..chain }, Collective { relation: far, ..chain }];
    let table =
        Table { machine: HERE.into(), rows: (1..=12).map(row).collect(), collectives: collectives.into() };
    let whole = table.text("a note");
    assert_eq!(Table::parse(whole.trim_end(), HERE), Ok(table));
    for length in 0..whole.trim_end().len() {
        let part = &whole[..length];
        let why = Table::parse(part, HERE).unwrap_err().to_string();
        assert!(part.lines().count() < 3 || why.contains("measure anew") || why.contains("no row"), "{why}");
    }
}

#[test]
fn a_world_takes_the_row_of_its_size() {
    let table =
        Table::parse(&text("process 2 0 cma 1\nprocess 8 1 double 0\nthread 1 2 direct 3\n"), HERE).unwrap();
    let eager = |ranks, size| table.row(ranks, size, None).map(|row| row.eager_max);
    for (size, right) in [(1, 0), (2, 0), (5, 0), (15, 0), (16, 1), (1000, 1)] {
        assert_eq!(eager(Ranks::Processes, size), Some(right), "{size}");
        assert_eq!(eager(Ranks::Threads, size), Some(2));
    }
    let processes = Table::parse(&text("process 1 0 cma 1"), HERE).unwrap();
    assert_eq!(processes.row(Ranks::Threads, 4, None), None);
}

#[test]
fn a_world_takes_the_row_for_what_lies_between_its_ranks() {
    use Relation::{Across, Cache, Node};
    let table = Table::parse(
        &text("process 2 0 cma 0\nprocess 2 1 cma 0 cache\nprocess 2 2 cma 0 across\nprocess 4 3 cma 0\nthread 1 4 direct 0 node\n"),
        HERE,
    )
    .unwrap();
    assert!(table.knows_relations());
    let eager = |ranks, size, relation| table.row(ranks, size, relation).map(|row| row.eager_max);
    for size in [2, 4, 7] {
        let of = [None, Some(Cache), Some(Node), Some(Across)].map(|it| eager(Ranks::Processes, size, it));
        assert_eq!(of, [Some(0), Some(1), Some(0), Some(2)], "{size}");
    }
    // So many pairs were measured without it.
    assert_eq!(eager(Ranks::Processes, 8, Some(Cache)), Some(3));
    let of = [None, Some(Cache), Some(Node)].map(|it| eager(Ranks::Threads, 2, it));
    assert_eq!(of, [None, None, Some(4)]);
}

#[test]
fn what_is_measured_anew_takes_the_place_of_its_kind_only() {
    let rows = "process 1 0 cma 0\nprocess 1 0 cma 0 cache\nprocess 4 0 cma 0\nthread 1 0 direct 0\n\
                collective ibcast process 2 0 chain\ncollective ibcast process 2 64 auto\ncollective ibcast process 4 0 chain\n\
                collective ibcast thread 2 0 chain\ncollective ibarrier process 2 0 tree\n";
    let old = Table { machine: machine(), ..Table::parse(&text(rows), HERE).unwrap() };
    let parsed = |rows: &str| {
        let table = Table::parse(&text(rows), HERE).unwrap();
        (table.rows.clone(), table.collectives.to_vec())
    };
    let (messages, collectives) = parsed(
        "process 1 7 cma 7 cache\nprocess 2 7 cma 7\ncollective ibcast process 2 0 linear\ncollective iscan process 2 0 chain\n",
    );
    let renewed = old.renewed(messages.clone(), collectives.clone()).unwrap();
    let lines: Vec<String> = renewed.to_string().lines().map(str::to_owned).collect();
    let is_row = |line: &&String| ["process", "thread", "collective"].iter().any(|w| line.starts_with(w));
    let right = [
        "process 1 0 cma 0",
        "process 1 7 cma 7 cache",
        "process 2 7 cma 7",
        "process 4 0 cma 0",
        "thread 1 0 direct 0",
        "collective ibcast process 4 0 chain",
        "collective ibcast thread 2 0 chain",
        "collective ibarrier process 2 0 tree",
        "collective ibcast process 2 0 linear",
        "collective iscan process 2 0 chain",
    ];
    assert_eq!(lines.iter().filter(is_row).collect::<Vec<_>>(), right);
    // Either kind alone leaves the other; the same again changes nothing.
    assert_eq!(old.renewed(messages.clone(), Vec::new()).unwrap().collectives(), old.collectives());
    assert_eq!(old.renewed(Vec::new(), collectives.clone()).unwrap().rows(), old.rows());
    assert_eq!(renewed.renewed(messages, collectives), Ok(renewed));
}

#[test]
fn what_is_broken_old_or_foreign_says_so() {
    let version = |number: u32| {
        let table = text("process 1 0 cma 0\ncollective ibcast process 2 0 chain");
        table.replace("tocsin-tune 5", &format!("tocsin-tune {number}"))
    };
    let many: String = (0..=MOST_ROWS).map(|at| format!("process {} 0 cma 0\n", at + 1)).collect();
    let long = "process ".repeat(1000);
    let cases = [
        ("".to_owned(), "does not begin with `tocsin-tune 5`"),
        ("\u{7f}ELF".to_owned(), "no table of `tocsin tune`"),
        ("tocsin-tune one".to_owned(), "no table of `tocsin tune`"),
        (version(7), "version 7, this program reads 1 to 5: measure anew, by `tocsin tune`"),
        (version(0), "version 0, this program reads 1 to 5: measure anew, by `tocsin tune`"),
        // The first version has no such rows.
        (version(1), "line 6 is no row: `collective ibcast process 2 0 chain`"),
        ("tocsin-tune 1\nprocess 1 0 cma 0".to_owned(), "which machine"),
        ("tocsin-tune 1\nmachine another\nprocess 1 0 cma 0".to_owned(), "another machine (another; this is"),
        (text(""), "no rows"),
        (text("process 1 0 cma 0\nprocess 2 0 cma"), "line 6 is no row"),
        (text("process 1 0 cma 0 0"), "no row"),
        (text("process 1 0 cma 0 cache 0"), "no row"),
        // The second version has no such rows.
        (text("process 1 0 cma 0 cache").replace("tocsin-tune 5", "tocsin-tune 2"), "line 5 is no row"),
        (text("process 1 0 cma 0 node\nprocess 1 0 cma 0 cache"), "line 6: rows of one kind"),
        (text("process 1 0 cma 0 node\nprocess 1 0 cma 0"), "line 6: rows of one kind"),
        (text("fiber 1 0 cma 0"), "no row"),
        (
            text("process 1 0 warp 0"),
            "line 5 names a strategy that this program does not have (measure anew)",
        ),
        (text("process 1 0 carrier 0"), "does not have (measure anew)"),
        (text("process 1 0 cma 0").replace("end 1", "end 2"), "does not end with `end 1`: measure anew"),
        (text("process 1 0 cma 0").replace("end 1", "end one"), "does not end with `end 1`"),
        (text("process 1 0 cma 0").replace("end 1", ""), "does not end with `end 1`"),
        (text("process 1 0 cma 0") + "process 2 0 cma 0", "line 7 comes after the table's end"),
        (text("process 1 -1 cma 0"), "no row"),
        (text("process 1 0 auto 0"), "line 5: ranks of this kind"),
        (text("process 1 0 direct 0"), "ranks of this kind"),
        (text("process 0 0 cma 0"), "at least 1 pair"),
        (text("process 1 32769 cma 0"), "at most 32768"),
        (text("process 2 0 cma 0\nthread 1 0 direct 0\nprocess 2 0 cma 0"), "line 7: rows of one kind"),
        (text(&long), "process proc...`"),
        (text("process 1 \u{1b}[2J cma 0"), "`process 1 ?[2J cma 0`"),
        (text(&many), "line 8197: more than 8192 rows of a kind"),
        (text("collective"), "line 5 is no row"),
        (text("collective ibcast process 2 0"), "line 5 is no row"),
        (text("collective ibcast process 2 0 chain 0"), "line 5 is no row"),
        (text("collective ibcast process 2 0 chain cache 0"), "line 5 is no row"),
        // The fourth version has no such rows.
        (
            text("collective ibcast process 2 0 chain cache").replace("tocsin-tune 5", "tocsin-tune 4"),
            "line 5 is no row",
        ),
        (
            text("collective ibcast process 2 0 chain node\ncollective ibcast process 2 0 auto node"),
            "line 6: rows of one operation",
        ),
        (text("collective ibcast fiber 2 0 chain"), "line 5 is no row"),
        (text("collective ibcast process 2 -1 chain"), "line 5 is no row"),
        (text("collective ibcast process 4294967298 0 chain"), "line 5 is no row"),
        (text("collective igossip process 2 0 chain"), "line 5 names an operation"),
        (text("collective ibcast process 2 0 rumour"), "line 5 names an algorithm"),
        (text("collective ibcast process 1 0 chain"), "line 5: a collective of 2 to 1024 ranks"),
        (
            text(
                "collective ibcast process 2 8 chain\nprocess 1 0 cma 0\ncollective ibcast process 2 8 auto",
            ),
            "line 7: rows of one operation",
        ),
        (text("collective ibarrier thread 2 8 linear"), "line 5: not all ranks of this operation know"),
        (text("collective ibarrier thread 2 0 linear\nprocess 1 0 auto 0"), "line 6: ranks of this kind"),
    ];
    for (text, says) in cases {
        let why = Table::parse(&text, HERE).unwrap_err().to_string();
        assert!(why.contains(says), "{text:?}: {why}");
    }
}

#[test]
fn a_file_of_the_first_version_is_read() {
    let first = text("process 1 8192 cma 0").replace("tocsin-tune 5", "tocsin-tune 1");
    let table = Table::parse(&first, HERE).unwrap();
    assert_eq!((table.rows().len(), table.collectives()), (1, &[][..]));
    assert_eq!(
        (table.choices(Ranks::Processes, 2, None), table.digest(Ranks::Processes)),
        (None, collective::EMPTY)
    );
}

#[test]
fn a_file_of_the_second_version_is_read() {
    let rows = "process 1 8192 cma 0\nprocess 2 4096 cma 0\ncollective ibcast process 2 0 linear";
    let second = text(rows).replace("tocsin-tune 5", "tocsin-tune 2");
    assert_eq!(Table::parse(&second, HERE), Table::parse(&text(rows), HERE));
    assert!(!Table::parse(&second, HERE).unwrap().knows_relations());
}

#[test]
fn a_chain_of_the_third_version_is_pipelined() {
    let third = text("collective ibcast process 2 0 chain").replace("tocsin-tune 5", "tocsin-tune 3");
    let fourth = text("collective ibcast process 2 0 pipelined-chain");
    assert_eq!(Table::parse(&third, HERE), Table::parse(&fourth, HERE));
    assert_eq!(Table::parse(&fourth, HERE).unwrap().collectives()[0].algorithm, Some("pipelined-chain"));
    assert_eq!(
        Table::parse(&text("collective ibcast process 2 0 chain"), HERE).unwrap().collectives()[0].algorithm,
        Some("chain")
    );
}

#[test]
fn a_file_that_cannot_be_read_is_refused() {
    for (file, says) in
        [("/no/such/file", "cannot be read"), ("/", "is no table"), ("/dev/null", "is no table")]
    {
        let why = Table::read(Path::new(file)).unwrap_err().to_string();
        assert!(why.contains(says) && why.contains(file), "{why}");
    }
}
