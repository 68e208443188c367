//! What algorithms cannot do, and why a call is refused.

use super::Arguments;
use crate::board::OnBoard;
use std::fmt;
use tocsin_transport::board::MEMBERS;

/// What an algorithm cannot do.
#[derive(Clone, Copy, Debug)]
pub struct Restrictions {
    /// Needs a commutative operator.
    pub commutative: bool,
    /// Most ranks it takes.
    pub max_ranks: u32,
    /// Needs a number of ranks that is a power of two.
    pub power_of_two: bool,
    /// Is done on the communicator's board, by what this makes of a call: needs a board, and takes no more than
    /// [fits there](crate::board::fits).
    pub(crate) board: Option<OnBoard>,
    /// What does not fit there goes by messages beside it.
    pub(crate) beside: bool,
    /// What does not fit there is made in rounds.
    pub(crate) in_rounds: bool,
}

impl Restrictions {
    /// Those of what is done on a board.
    pub(crate) const fn on_board(call: OnBoard) -> Restrictions {
        Restrictions { max_ranks: MEMBERS as u32, board: Some(call), ..Restrictions::NONE }
    }

    /// The same where long blocks go by messages beside the board.
    pub(crate) const fn beside_board(call: OnBoard) -> Restrictions {
        Restrictions { beside: true, ..Restrictions::on_board(call) }
    }

    /// The same where long blocks are made in rounds.
    pub(crate) const fn in_rounds_on_board(call: OnBoard) -> Restrictions {
        Restrictions { in_rounds: true, ..Restrictions::on_board(call) }
    }

    /// Whether it is done on the communicator's board, all of it or what fits there, and so does not work without a board.
    pub const fn needs_board(&self) -> bool {
        self.board.is_some()
    }

    /// None at all.
    pub const NONE: Restrictions = Restrictions {
        commutative: false,
        max_ranks: u32::MAX,
        power_of_two: false,
        board: None,
        beside: false,
        in_rounds: false,
    };

    /// Why these arguments are excluded, if they are. Where a board is needed, that there is one is for the caller to see
    /// to.
    pub fn refusal(&self, arguments: &Arguments, ranks: u32) -> Option<&'static str> {
        self.refusal_of_outline(arguments, ranks)
            .or_else(|| (ranks > self.max_ranks).then_some(TOO_MANY_ROUNDS))
    }

    /// The same of what is [not run](super::outline): rounds that no tag can number are no reason.
    pub fn refusal_of_outline(&self, arguments: &Arguments, ranks: u32) -> Option<&'static str> {
        if self.commutative && !arguments.is_commutative() {
            return Some("changes the order of operands and so needs a commutative operator");
        }
        if self.needs_board() && (ranks as usize > MEMBERS || !crate::board::fits(arguments, ranks as usize))
        {
            return Some(TOO_MUCH);
        }
        if self.power_of_two && !ranks.is_power_of_two() {
            return Some("needs a number of ranks that is a power of two");
        }
        None
    }
}

impl fmt::Display for Restrictions {
    /// For people: `none`, or what has to be so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = Vec::new();
        if self.commutative {
            all.push("commutative operators".to_owned());
        }
        if self.power_of_two {
            all.push("a power of two of ranks".to_owned());
        }
        if self.max_ranks < u32::MAX {
            all.push(format!("at most {} ranks", self.max_ranks));
        }
        match (self.needs_board(), self.beside || self.in_rounds) {
            (true, false) => all.push("short blocks in memory that all ranks share".to_owned()),
            (true, true) => all.push("memory that all ranks share".to_owned()),
            (false, _) => {}
        }
        if all.is_empty() { f.write_str("none") } else { f.write_str(&all.join(", ")) }
    }
}

const TOO_MANY_ROUNDS: &str = "has more rounds than a message tag can number with so many ranks";
const TOO_MUCH: &str = "takes at most 64 ranks, in reductions elements of 32 KiB in all, and in allgatherv and \
                        reduce_scatter 1 MiB from each";
