//! The benches that need ranks.

pub(crate) mod chosen;
pub mod coll;
pub mod compare;
pub mod contention;
pub mod exchange;
pub mod idle;
pub mod outstanding;
pub mod overlap;
mod overlapped;
pub mod pairs;
pub mod pingpong;
mod progress;
pub mod rate;
pub mod ring;
mod session;

pub(crate) use progress::bar as progress_bar;
pub use session::Session;

use crate::cli::Common;
use crate::error::Error;
use crate::fleet::Plan;
use crate::row::Row;
use crate::values::{Buffers, Kind, Lmt};
use tocsin_world::say;
use tocsin_world::{Lmt as LibraryLmt, tune};

/// The rows every bench begins with.
fn row(bench: &'static str, plan: &Plan) -> Row {
    Row::new(bench)
        .set("backend", plan.backend_name())
        .set("kind", plan.kind.to_string())
        .set("ranks", plan.ranks)
        .set("lmt", effective_lmt(plan))
        .set("buffers", (plan.buffers == Buffers::Shared).then_some("shared"))
        .set("progress", plan.progress.map(|policy| policy.name()))
        .set("reserve", plan.reserve)
        .set("schedule", plan.schedule.map(|schedule| schedule.to_string()))
}

/// How large messages travel between the ranks of a plan: what was asked for, or the best, where it works; what a table
/// says where the environment names one, `tuned` if that is not the same for all sizes.
fn effective_lmt(plan: &Plan) -> String {
    let config = plan.config().unwrap_or_default();
    let relation = config.relation(&config.seats(plan.ranks).unwrap_or_default());
    let ranks = plan.kind.of_library();
    let measured = config.tune.as_ref().and_then(|tuning| tuning.table.row(ranks, plan.ranks, relation));
    // Only where that is what is asked for: it takes descriptors to find out.
    let pages = plan.lmt == Lmt::Vmsplice || measured.is_some_and(|row| row.strategy == LibraryLmt::Vmsplice);
    let works = Works {
        xpmem: tocsin_world::xpmem_refusal().is_none(),
        cma: tocsin_world::cma_refusal().is_none(),
        knem: tocsin_world::knem_refusal().is_none(),
        pages: pages && tocsin_world::vmsplice_refusal().is_none(),
    };
    lmt_name(plan.lmt, plan.kind, works, measured)
}

/// What the kernel does here.
#[derive(Clone, Copy)]
struct Works {
    xpmem: bool,
    cma: bool,
    knem: bool,
    pages: bool,
}

fn lmt_name(asked: Lmt, kind: Kind, works: Works, measured: Option<&tune::Row>) -> String {
    let (local, Works { xpmem, cma, knem, pages }) = (kind == Kind::Thread, works);
    // A table that prefers the kernel's copies has them.
    let maps = xpmem && measured.is_none_or(|row| row.strategy != LibraryLmt::Cma);
    let lmt = match (asked, measured) {
        (Lmt::Auto, Some(row)) if row.strategy == LibraryLmt::Double => Lmt::Double,
        (Lmt::Auto, Some(row)) if row.strategy == LibraryLmt::Vmsplice && !local => match pages {
            true if row.from > 0 => return "tuned".into(),
            true => Lmt::Vmsplice,
            false => Lmt::Double,
        },
        (Lmt::Auto, Some(row)) if row.from > 0 && (local || maps || cma || knem) => return "tuned".into(),
        (Lmt::Vmsplice, _) if pages => Lmt::Vmsplice,
        (Lmt::Auto | Lmt::Direct, _) if local => Lmt::Direct,
        (Lmt::Auto, _) if maps => Lmt::Xpmem,
        (Lmt::Xpmem, _) if xpmem => Lmt::Xpmem,
        (Lmt::Auto | Lmt::Cma, _) if cma => Lmt::Cma,
        (Lmt::Auto | Lmt::Knem, _) if knem => Lmt::Knem,
        _ => Lmt::Double,
    };
    lmt.to_string()
}

/// The numbers of ranks to measure.
fn ranks(common: &Common, default: u64) -> Vec<u32> {
    let asked = common.ranks.as_ref().map_or_else(|| vec![default], |list| list.0.clone());
    asked.into_iter().map(|n| n as u32).collect()
}

/// The number of ranks of a bench of two.
pub(crate) fn two_ranks(common: &Common, bench: &str) -> Result<u32, Error> {
    match ranks(common, 2)[..] {
        [2] => Ok(2),
        _ => Err(Error::Usage(format!("bench {bench} is between 2 ranks: leave --ranks out"))),
    }
}

/// The numbers of ranks of a bench of two or more.
fn from_two_ranks(common: &Common, bench: &str, default: u64) -> Result<Vec<u32>, Error> {
    let all = ranks(common, default);
    match all.iter().all(|n| *n >= 2) {
        true => Ok(all),
        false => Err(Error::Usage(format!("bench {bench} needs 2 ranks or more"))),
    }
}

/// Says of options that were given and mean nothing to this bench that they are ignored.
pub(crate) fn ignored(bench: &str, options: &[(&str, bool)]) {
    for (option, _) in options.iter().filter(|(_, given)| *given) {
        say(format_args!("tocsin bench {bench}: {option} does not apply here and is ignored"));
    }
}

/// The sizes to measure.
fn sizes(common: &Common, default: &[u64]) -> Vec<u64> {
    common.sizes.as_ref().map_or_else(|| default.to_vec(), |list| list.0.clone())
}

/// Microseconds from nanoseconds.
fn us(ns: f64) -> f64 {
    ns / 1000.0
}

/// The greatest of one number over the ranks.
fn most(
    measured: &[crate::fleet::block::Measured],
    of: impl Fn(&crate::fleet::block::Measured) -> u64,
) -> u64 {
    measured.iter().map(of).max().unwrap_or(0)
}

/// An error when any rank got wrong data: a wrong result is never a row that looks like a right one.
pub(crate) fn check(
    measured: &[crate::fleet::block::Measured],
    plan: &Plan,
    what: &str,
) -> Result<(), Error> {
    match measured.iter().position(|m| m.verified == 0) {
        None => Ok(()),
        Some(rank) => Err(Error::Failed(format!(
            "rank {rank} of backend {} got wrong data in {what}: please report this",
            plan.backend_name()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_the_strategy_that_runs() {
        use Kind::{Process, Thread};
        use tocsin_world::Lmt as Of;
        let row = |strategy, from| tune::Row {
            ranks: tune::Ranks::Processes,
            at_once: 1,
            eager_max: 4096,
            strategy,
            from,
            relation: None,
        };
        let (double, all, long) = (row(Of::Double, 0), row(Of::Cma, 0), row(Of::Cma, 65536));
        let direct = row(Of::Direct, 65536);
        for (asked, kind, cma, measured, right) in [
            (Lmt::Auto, Process, true, None, "cma"),
            (Lmt::Auto, Process, false, None, "double"),
            (Lmt::Auto, Thread, true, None, "direct"),
            (Lmt::Auto, Process, true, Some(&double), "double"),
            (Lmt::Auto, Thread, true, Some(&double), "double"),
            (Lmt::Auto, Process, true, Some(&all), "cma"),
            (Lmt::Auto, Process, true, Some(&long), "tuned"),
            (Lmt::Auto, Process, false, Some(&long), "double"),
            (Lmt::Auto, Thread, false, Some(&direct), "tuned"),
            // What is forced goes before the table.
            (Lmt::Cma, Process, true, Some(&double), "cma"),
            (Lmt::Double, Process, true, Some(&long), "double"),
        ] {
            let works = Works { xpmem: false, cma, knem: false, pages: false };
            assert_eq!(lmt_name(asked, kind, works, measured), right, "{asked} {kind} {cma} {measured:?}");
        }
        let (pages, long) = (row(Of::Vmsplice, 0), row(Of::Vmsplice, 65536));
        for (asked, kind, works, measured, right) in [
            (Lmt::Vmsplice, Process, true, None, "vmsplice"),
            (Lmt::Vmsplice, Thread, true, None, "vmsplice"),
            (Lmt::Vmsplice, Process, false, None, "double"),
            (Lmt::Auto, Process, true, Some(&pages), "vmsplice"),
            (Lmt::Auto, Process, true, Some(&long), "tuned"),
            (Lmt::Auto, Process, false, Some(&long), "double"),
            (Lmt::Auto, Process, true, None, "cma"),
        ] {
            let works = Works { xpmem: false, cma: true, knem: false, pages: works };
            assert_eq!(lmt_name(asked, kind, works, measured), right, "{asked} {kind} {measured:?}");
        }
        let (mapped, long) = (row(Of::Xpmem, 0), row(Of::Xpmem, 65536));
        for (asked, kind, xpmem, measured, right) in [
            (Lmt::Auto, Process, true, None, "xpmem"),
            (Lmt::Auto, Thread, true, None, "direct"),
            (Lmt::Auto, Process, true, Some(&mapped), "xpmem"),
            (Lmt::Auto, Process, true, Some(&long), "tuned"),
            (Lmt::Auto, Process, true, Some(&all), "cma"),
            (Lmt::Auto, Process, true, Some(&double), "double"),
            (Lmt::Auto, Process, false, Some(&mapped), "cma"),
            (Lmt::Xpmem, Process, true, Some(&all), "xpmem"),
            (Lmt::Xpmem, Thread, true, None, "xpmem"),
            (Lmt::Xpmem, Process, false, None, "double"),
        ] {
            let works = Works { xpmem, cma: true, knem: false, pages: false };
            assert_eq!(lmt_name(asked, kind, works, measured), right, "{asked} {kind} {xpmem} {measured:?}");
        }
        // Where the kernel copies otherwise, only who asks for it has it.
        let keyed = row(Of::Knem, 65536);
        for (asked, kind, cma, knem, measured, right) in [
            (Lmt::Auto, Process, true, true, None, "cma"),
            (Lmt::Auto, Process, false, true, None, "knem"),
            (Lmt::Auto, Process, false, true, Some(&keyed), "tuned"),
            (Lmt::Auto, Process, false, false, Some(&keyed), "double"),
            (Lmt::Auto, Process, false, true, Some(&double), "double"),
            (Lmt::Auto, Thread, false, true, None, "direct"),
            (Lmt::Knem, Process, true, true, Some(&double), "knem"),
            (Lmt::Knem, Process, true, false, None, "double"),
            (Lmt::Cma, Process, false, true, None, "double"),
        ] {
            let works = Works { xpmem: false, cma, knem, pages: false };
            assert_eq!(lmt_name(asked, kind, works, measured), right, "{asked} {kind} {cma} {knem}");
        }
    }
}
