//! Exchange of blocks of any length anywhere in memory on the board: every rank stores its blocks up to a limit and loads those that are for it. Longer ones, as each two
//! ranks know, go by messages beside it, all at once.

use super::places::{Places, Spot, put_block};
use crate::board::{Call, Layout, Use, Way, limit, served};
use crate::builder::{Mem, ScheduleBuilder, StepId};
use crate::table::{Algorithm, Arguments, Block, Operation, Restrictions, misplaced};
use crate::{Error, Group};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    operation: Operation::Ialltoallv,
    name: "shm",
    source: "folklore",
    cost: "c + 2 p n b, of longer blocks (p - 1) (a + n b)",
    restrictions: Restrictions::beside_board(call),
    compile,
    order: None,
};

pub(crate) const TYPED: Algorithm = Algorithm { operation: Operation::Ialltoallw, ..ALGORITHM };

fn call(arguments: &Arguments, group: &Group) -> Result<Call, Error> {
    let (Arguments::Ialltoallv { send, recv, .. } | Arguments::Ialltoallw { send, recv, .. }) = *arguments
    else {
        return Err(misplaced());
    };
    let base = send.map_or(recv.cast_const(), |(send, _)| send);
    let mut call = Call::new(arguments.operation(), 0, Use::compartments(Way::All, group, base));
    call.to = recv;
    Ok(call)
}

fn compile(arguments: &Arguments, b: &mut ScheduleBuilder) -> Result<(), Error> {
    let (Arguments::Ialltoallv { send, recv, blocks } | Arguments::Ialltoallw { send, recv, blocks }) =
        *arguments
    else {
        return Err(misplaced());
    };
    let me = b.rank() as usize;
    let mut received = blocks.to_vec();
    if send.is_none() {
        // Its own stands there.
        received[me] = Block::default();
    }
    let (from, sent) =
        send.map_or((Mem::User(recv), &received[..]), |(send, sent)| (Mem::read_only(send), sent));
    let beside = Beside {
        send: Places::displaced(from, sent),
        recv: Places::displaced(Mem::User(recv), &received),
        in_place: send.is_none(),
    };
    compile_as(call(arguments, b.group())?, (&received, sent), &beside, b)
}

/// Where blocks stand that may go by messages.
pub(super) struct Beside<'a> {
    pub(super) send: Places<'a>,
    pub(super) recv: Places<'a>,
    /// What is sent stands where what is received goes.
    pub(super) in_place: bool,
}

/// A call on the board for those of these blocks that go there, received and sent, one of each for each rank, and messages for the others.
pub(super) fn compile_as(
    mut call: Call,
    (received, sent): (&[Block], &[Block]),
    beside: &Beside,
    b: &mut ScheduleBuilder,
) -> Result<(), Error> {
    let Use::Compartments { way, packed, .. } = &mut call.then else { return Err(misplaced()) };
    let (me, size) = (b.rank(), b.size());
    let limit = limit(*way, b.group());
    let blocks = served(*way, me as usize, size as usize).map(|to| sent.get(to).copied().unwrap_or_default());
    let layout = Layout::of(*way, size as usize, limit, blocks);
    *packed = layout.packed;
    (call.bytes, call.long) = (layout.bytes, layout.long);
    call.board = b.group().board().ok_or(Error::BadSchedule("its group has no board"))?;
    // Its run comes first among the temporaries.
    b.on_board(call, &[received, sent].concat());

    let is_long = |spot: &Spot| spot.bytes() > limit;
    let mut ready = Vec::new();
    let mut aside = Vec::new();
    for to in (1..size).map(|i| (me + i) % size) {
        let spot = beside.send.spot(to);
        if beside.in_place && is_long(&spot) {
            let run = Spot::run(b.temp(spot.bytes()), spot.bytes());
            ready.extend(put_block(b, &spot, &run, &[]));
            aside.push((to, run));
        } else if is_long(&spot) {
            aside.push((to, spot));
        }
    }
    let ready: Vec<StepId> = if ready.is_empty() { ready } else { vec![b.join(&ready)] };
    for from in (1..size).map(|i| (me + (size - i)) % size) {
        let spot = beside.recv.spot(from);
        if is_long(&spot) {
            spot.receive(b, from, 0, &ready);
        }
    }
    for (to, spot) in aside {
        spot.send_after(b, to, 0, &ready);
    }
    let (own, place) = (beside.send.spot(me), beside.recv.spot(me));
    if is_long(&place) && !beside.in_place {
        put_block(b, &own, &place, &[]);
    }
    Ok(())
}
