//! What the table of measured thresholds and algorithms says, if the environment names one.

use serde_json::{Value, json};
use tocsin_world::Config;
use tocsin_world::tune::{Collective, Ranks, Relation, Row, Tuning};

const VARIABLE: &str = "TOCSIN_TUNE";

/// The table; why it cannot be used; `None`: there is none.
pub(super) fn read() -> Option<Result<Tuning, String>> {
    let of_table = std::env::vars_os().filter(|(name, _)| name == VARIABLE);
    match Config::from_variables(of_table) {
        Ok(config) => config.tune.map(Ok),
        Err(why) => Some(Err(why.to_string())),
    }
}

/// For people.
pub(super) fn text(tuning: Option<&Result<Tuning, String>>) -> String {
    let tuning = match tuning {
        None => return format!("  none: `tocsin tune` writes one, {VARIABLE} names it\n"),
        Some(Err(why)) => return format!("  not usable: {why}\n"),
        Some(Ok(tuning)) => tuning,
    };
    let mut text = format!("  {}\n", tuning.file.display());
    for row in tuning.table.rows() {
        text += &format!("  {}\n", messages(row));
    }
    let mut rows = tuning.table.collectives();
    while let Some(first) = rows.first() {
        let beside = |row: &&Collective| {
            let on = |of: &Collective| (of.operation, of.ranks, of.size, of.relation);
            on(row) == on(first)
        };
        // Those of one operation on the same ranks mostly stand together.
        let (together, others) = rows.split_at(rows.iter().take_while(beside).count());
        text += &format!("  {}\n", collective(first, together));
        rows = others;
    }
    text
}

fn kind(ranks: Ranks) -> &'static str {
    match ranks {
        Ranks::Processes => "processes",
        Ranks::Threads => "threads",
    }
}

/// Where ranks are, in words that follow what they are.
fn place(relation: Option<Relation>) -> &'static str {
    match relation {
        None => "",
        Some(Relation::Cache) => " that share a cache",
        Some(Relation::Node) => " of one NUMA node",
        Some(Relation::Across) => " of two NUMA nodes",
    }
}

/// `processes that share a cache, 1 pair at once: eager up to 16384 B, then cma from 65536 B on`
fn messages(row: &Row) -> String {
    let Row { ranks, at_once, eager_max, strategy, from, relation } = row;
    let pairs = if *at_once == 1 { "pair" } else { "pairs" };
    let place = place(*relation);
    let beyond = match from {
        0 => format!("then {}", strategy.name()),
        _ => format!("{} from {from} B on", strategy.name()),
    };
    format!("{}{place}, {at_once} {pairs} at once: eager up to {eager_max} B, {beyond}", kind(*ranks))
}

/// `2 processes, ibcast: auto, chain from 65536 B on`
fn collective(first: &Collective, rows: &[Collective]) -> String {
    let one = |row: &Collective| match (row.algorithm.unwrap_or("auto"), row.from) {
        (name, 0) => name.to_owned(),
        (name, from) => format!("{name} from {from} B on"),
    };
    let all: Vec<String> = rows.iter().map(one).collect();
    let (size, kind, place) = (first.size, kind(first.ranks), place(first.relation));
    format!("{size} {kind}{place}, {}: {}", first.operation, all.join(", "))
}

/// For programs; null when there is none.
pub(super) fn value(tuning: Option<&Result<Tuning, String>>) -> Value {
    let tuning = match tuning {
        None => return Value::Null,
        Some(Err(why)) => return json!({"why_not": why}),
        Some(Ok(tuning)) => tuning,
    };
    let word = |ranks| if ranks == Ranks::Processes { "process" } else { "thread" };
    let messages = tuning.table.rows().iter().map(|row| {
        let strategy = row.strategy.name();
        json!({"kind": word(row.ranks), "at_once": row.at_once, "eager_max_bytes": row.eager_max, "strategy": strategy,
            "from_bytes": row.from, "relation": row.relation.map(Relation::name)})
    });
    let collectives = tuning.table.collectives().iter().map(|row| {
        let (op, algorithm) = (row.operation.name(), row.algorithm.unwrap_or("auto"));
        json!({"op": op, "kind": word(row.ranks), "ranks": row.size, "from_bytes": row.from, "algorithm": algorithm,
            "relation": row.relation.map(Relation::name)})
    });
    json!({"file": tuning.file.display().to_string(), "messages": messages.collect::<Value>(),
        "collectives": collectives.collect::<Value>()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use tocsin_world::tune::Table;
    use tocsin_world::{Lmt, Operation};

    #[test]
    fn rows_are_told_in_words() {
        let between = |at_once, from, relation| Row {
            ranks: Ranks::Processes,
            at_once,
            eager_max: 8192,
            strategy: Lmt::Cma,
            from,
            relation,
        };
        let messages = |at_once, from| between(at_once, from, None);
        let collective = |operation, from, algorithm| Collective {
            operation,
            ranks: Ranks::Threads,
            size: 4,
            from,
            algorithm,
            relation: None,
        };
        let far = Some(Relation::Across);
        let collectives = vec![
            collective(Operation::Ibcast, 0, None),
            collective(Operation::Ibcast, 4096, Some("chain")),
            Collective { relation: far, ..collective(Operation::Ibcast, 0, Some("linear")) },
            collective(Operation::Ibarrier, 0, Some("tree")),
        ];
        let near = between(1, 4096, Some(Relation::Cache));
        let table = Table::new(vec![messages(1, 0), near, messages(2, 65536)], collectives).unwrap();
        let directory = std::env::temp_dir();
        let file = directory.join(format!("tocsin-tune-of-the-info-{}", std::process::id()));
        std::fs::write(&file, table.to_string()).unwrap();
        let mut config = Config::default();
        config.set(VARIABLE, file.to_str().unwrap()).unwrap();
        std::fs::remove_file(&file).unwrap();
        let tuning = config.tune.map(Ok);
        let text = text(tuning.as_ref());
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let right = [
            "  processes, 1 pair at once: eager up to 8192 B, then cma",
            "  processes that share a cache, 1 pair at once: eager up to 8192 B, cma from 4096 B on",
            "  processes, 2 pairs at once: eager up to 8192 B, cma from 65536 B on",
            "  4 threads, ibcast: auto, chain from 4096 B on",
            "  4 threads of two NUMA nodes, ibcast: linear",
            "  4 threads, ibarrier: tree",
        ];
        assert_eq!(lines, right);
        let value = value(tuning.as_ref());
        assert_eq!(
            (&value["messages"][2]["from_bytes"], &value["collectives"][1]["algorithm"]),
            (&65536.into(), &"chain".into())
        );
        assert_eq!(
            (&value["messages"][1]["relation"], &value["messages"][2]["relation"]),
            (&"cache".into(), &Value::Null)
        );
        assert_eq!(value["collectives"][2]["relation"], "across");
        assert!(super::text(None).contains("tocsin tune") && super::value(None).is_null());
        assert!(super::text(Some(&Err("broken".into()))).contains("not usable: broken"));
    }
}
