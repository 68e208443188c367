//! What one rank does in a test world. A scenario panics when something is wrong.

pub mod boards;
pub mod collectives;
pub mod computing;
pub mod faults;
pub mod flow;
pub mod forks;
pub mod leaving;
pub mod messages;
pub mod programs;
pub mod threads;

use tocsin_world::Comm;

use crate::run::Arguments;
use crate::{memory, ways};

/// What one rank does.
pub type Scenario = fn(&Comm, &Arguments);

/// All scenarios by name.
pub const ALL: &[(&str, Scenario)] = &[
    ("messages", messages::random_messages),
    ("collectives", collectives::random_collectives),
    ("collectives-product", collectives::product),
    ("collectives-pairwise", collectives::covered::pairwise),
    ("interleaved", collectives::interleaved),
    ("mixed", collectives::mixed),
    ("programs", programs::random_programs),
    ("restarted", collectives::restarted),
    ("restarted-until-death", collectives::restarted_until_death),
    ("computing", computing::messages_while_computing),
    ("flow-control", flow::sends_then_barrier),
    ("flood", flow::flood),
    ("waits-for-who-computes", flow::waits_for_who_computes),
    ("beside-a-stopped-rank", flow::beside_a_stopped_rank),
    ("forks", forks::forked_in_flight),
    ("rings", flow::rings_who_computes),
    ("threads", threads::post_wait_and_test),
    ("test-behind-flood", threads::test_behind_a_flood),
    ("rest-behind-flood", threads::rest_behind_a_flood),
    ("callbacks", threads::callbacks_while_computing),
    ("make-communicators", threads::make_communicators),
    ("boards-come-back", boards::boards_come_back),
    ("until-death", faults::until_death),
    ("blocked-until-death", faults::blocked_until_death),
    ("spin", faults::spin),
    ("left-by-exit", faults::left_by_exit),
    ("dies-copying", faults::dies_copying),
    ("dies-sending", faults::dies_sending),
    ("dies-receiving", faults::dies_receiving),
    ("one-leaves", leaving::one_leaves),
];

/// Does what the scenario of that name does. `buffers`: [where](memory::ask_for) some of them lie; `by`: the one [way](ways) that large messages go
/// (`memory`, `kernel`, `knem`, `pages` or `lanes`), `least` bytes of them.
pub fn run(name: &str, comm: &Comm, arguments: &Arguments) {
    memory::ask_for(arguments);
    let before = comm.stats();
    find(name)(comm, arguments);
    if let Some(by) = arguments.optional("by") {
        let least = if comm.rank() == 0 { arguments.number("least") } else { 0 };
        ways::assert(comm, by, &comm.stats().since(&before), least);
    }
}

fn find(name: &str) -> Scenario {
    match ALL.iter().find(|(known, _)| *known == name) {
        Some((_, scenario)) => *scenario,
        None => panic!("no scenario {name}"),
    }
}
