//! `tocsin plan split-tree`: a row per number of ranks.

use super::environment;
use crate::cli::SplitTree as Args;
use crate::error::Error;
use crate::row::{Row, Sink, print, rounded};
use crate::values::{MAX_PLANNED, Shape};
use serde_json::Value;
use tocsin_topology::split_tree::{SplitTree, Time, Weights};

pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let cores = match args.cores {
        Some(cores) => cores,
        None => environment()?.machine().map_err(Error::failed)?.cores.len() as u32,
    };
    let weights = match args.shape {
        Shape::Constant => Weights::Constant,
        Shape::Doubling => Weights::Doubling,
    };
    let all = || (1..=u64::from(cores).min(MAX_PLANNED)).collect();
    let ranks: Vec<u64> = args.ranks.as_ref().map_or_else(all, |list| list.0.clone());
    // All of them first: a wrong number prints no row.
    let tree = |ranks: &u64| {
        SplitTree::new(cores, *ranks as u32, weights).map_err(|e| Error::Usage(format!("--ranks: {e}")))
    };
    let trees: Vec<SplitTree> = ranks.iter().map(tree).collect::<Result<_, _>>()?;
    let mut sink = Sink::new(args.json);
    for tree in &trees {
        sink.row(&row(tree, cores, args.shape));
    }
    if !args.json {
        print(&summary(&trees));
    }
    Ok(())
}

fn row(tree: &SplitTree, cores: u32, shape: Shape) -> Row {
    let s = tree.best();
    let value = |time: Option<Time>| time.map_or(Value::Null, |time| rounded(time.as_f64()).into());
    let row = Row::new("plan split-tree")
        .set("ranks", tree.ranks())
        .set("cores", cores)
        .set("shape", shape.to_string())
        .set("s", s)
        .set("t_model", value(tree.time(s)));
    row.set("t_by_s", (0..=tree.depth()).map(|s| value(tree.time(s))).collect::<Value>())
}

/// What the thesis reads off the same numbers.
fn summary(trees: &[SplitTree]) -> String {
    let mut text = String::from("\nTimes in transfers of one buffer; t_by_s: with s = 0, 1, 2, ...\n");
    let timed = trees.iter().filter_map(|tree| Some((tree.time(0)?, tree.ranks())));
    if let Some((_, ranks)) = timed.min() {
        text += &format!("Least time with s = 0: {ranks} ranks.\n");
    }
    for pair in trees.windows(2) {
        if let [before, after] = pair
            && before.best() != after.best()
        {
            let (from, to) = (before.best(), after.best());
            text += &format!("At {} ranks s goes from {from} to {to}.\n", after.ranks());
        }
    }
    text
}
