//! A rank's own part of a short collective on a board: each rank in a form of its own, in place, in place by equal pointers, or
//! not, by operators that do not commute; results that are made late, by handlers too; buffers that are written anew as soon as their rank is done.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::Random;
use common::driver::{Machine, Rank, group};
use common::network::{End, network};
use common::values::compose;
use std::ptr::NonNull;
use tocsin_nbc::table::{self, Arguments, Operation};
use tocsin_nbc::{DataType, Op, Posted, UserOp};
use tocsin_progress::completion::{Code, Completion, Outcome};

/// Two `u32`: a map x -> a x + b. Handlers may run it.
///
/// # Safety
/// As `tocsin_nbc::UserFunction`.
unsafe fn ordered(_: *const (), left: *const u8, right: *const u8, out: *mut u8, count: usize) {
    for operand in [left, right] {
        let far = operand.addr().abs_diff(out.addr());
        assert!(far == 0 || far >= 8 * count, "the result overlaps an operand");
    }
    for i in 0..count {
        // SAFETY: - promised by the caller.
        unsafe {
            let [a, b] = [left, right].map(|from| from.cast::<u64>().add(i).read_unaligned());
            out.cast::<u64>().add(i).write_unaligned(then(a, b));
        }
    }
}

fn then(a: u64, b: u64) -> u64 {
    let of = |v: u64| (v as u32, (v >> 32) as u32);
    let (a, b) = compose(of(a), of(b));
    u64::from(b) << 32 | u64::from(a)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Apart,
    InPlace,
    /// The same place, by both pointers.
    Same,
}

const FORMS: [Form; 3] = [Form::Apart, Form::InPlace, Form::Same];
const NOTHING: u64 = 0xeeee_eeee_eeee_eeee;

#[derive(Clone, Debug)]
struct Case {
    operation: Operation,
    ranks: usize,
    root: usize,
    /// Elements, and of a reduce-scatter, of each rank.
    count: usize,
    counts: Vec<usize>,
    /// Of each rank.
    forms: Vec<Form>,
    handler_safe: bool,
    /// The sum of words, and not an operator of the user's.
    built_in: bool,
}

impl Case {
    fn has_form(operation: Operation, root: usize, rank: usize) -> bool {
        match operation {
            Operation::Ibarrier | Operation::Ibcast => false,
            _ => !operation.has_root() || rank == root,
        }
    }

    fn given(&self, rank: usize) -> usize {
        match self.operation {
            Operation::Ibarrier => 0,
            Operation::Ibcast if rank != self.root => 0,
            Operation::Iscatter if rank != self.root => 0,
            Operation::Iscatter | Operation::Ialltoall | Operation::IreduceScatterBlock => {
                self.count * self.ranks
            }
            Operation::IreduceScatter => self.counts.iter().sum(),
            _ => self.count,
        }
    }

    /// Elements of the receive buffer, and where in it the input stands in place.
    fn room(&self, rank: usize) -> (usize, usize) {
        let whole = self.count * self.ranks;
        match self.operation {
            Operation::Ibarrier => (0, 0),
            Operation::Igather | Operation::Iallgather => (whole, rank * self.count),
            Operation::Ialltoall | Operation::Iscatter => (whole, 0),
            _ => (self.given(rank).max(self.count), 0),
        }
    }

    fn result(&self, rank: usize, inputs: &[Vec<u64>]) -> Option<Vec<u64>> {
        let fold = |until: usize, from: usize, count: usize| -> Vec<u64> {
            let part = |rank: usize| inputs[rank][from..from + count].to_vec();
            let one = |a: u64, b: u64| if self.built_in { a.wrapping_add(b) } else { then(a, b) };
            let both = |a: Vec<u64>, b: Vec<u64>| a.iter().zip(&b).map(|(a, b)| one(*a, *b)).collect();
            (1..until).map(part).fold(part(0), both)
        };
        let n = self.count;
        match self.operation {
            Operation::Ibarrier => None,
            Operation::Ibcast => Some(inputs[self.root].clone()),
            Operation::Iscatter => Some(inputs[self.root][rank * n..(rank + 1) * n].to_vec()),
            Operation::Igather if rank != self.root => None,
            Operation::Igather | Operation::Iallgather => Some(inputs.concat()),
            Operation::Ialltoall => {
                Some(inputs.iter().flat_map(|input| input[rank * n..(rank + 1) * n].to_vec()).collect())
            }
            Operation::Ireduce if rank != self.root => None,
            Operation::Ireduce | Operation::Iallreduce => Some(fold(self.ranks, 0, n)),
            Operation::IreduceScatter => {
                Some(fold(self.ranks, self.counts[..rank].iter().sum(), self.counts[rank]))
            }
            Operation::IreduceScatterBlock => Some(fold(self.ranks, rank * n, n)),
            Operation::Iscan => Some(fold(rank + 1, 0, n)),
            Operation::Iexscan => (rank > 0).then(|| fold(rank, 0, n)),
            _ => unreachable!(),
        }
    }
}

struct Buffers {
    send: Vec<u64>,
    recv: Vec<u64>,
    expected: Vec<u64>,
}

impl Buffers {
    fn new(case: &Case, rank: usize) -> Buffers {
        let (room, _) = case.room(rank);
        // One more than there is, so that none is nowhere.
        Buffers {
            send: vec![NOTHING; case.given(rank) + 1],
            recv: vec![NOTHING; room + 1],
            expected: Vec::new(),
        }
    }

    fn fill(&mut self, case: &Case, rank: usize, inputs: &[Vec<u64>]) {
        let (own, (_, at)) = (&inputs[rank], case.room(rank));
        self.send.fill(NOTHING);
        self.recv.fill(NOTHING);
        self.send[..own.len()].copy_from_slice(own);
        let apart = case.forms[rank] == Form::Apart;
        let is_scatter = case.operation == Operation::Iscatter;
        if case.operation == Operation::Ibcast || !apart {
            if !is_scatter {
                self.recv[at..at + own.len()].copy_from_slice(own);
            } else {
                self.recv[..own.len()].copy_from_slice(own);
            }
        }
        self.expected = self.recv.clone();
        if let Some(result) = case.result(rank, inputs).filter(|_| !is_scatter || apart) {
            self.expected[..result.len()].copy_from_slice(&result);
        }
    }

    fn arguments<'a>(&mut self, case: &'a Case, rank: usize) -> Arguments<'a> {
        let form = case.forms[rank];
        let (_, at) = case.room(rank);
        let (recv, count, root) = (self.recv.as_mut_ptr(), case.count, case.root as u32);
        let send = match form {
            Form::Apart => Some(self.send.as_ptr().cast::<u8>()),
            Form::InPlace => None,
            // By one pointer only: all its ranks would have to give another one.
            Form::Same if case.operation == Operation::Iallgather => None,
            Form::Same => Some(recv.wrapping_add(at).cast_const().cast()),
        };
        // SAFETY: - `ordered` keeps to the contract for elements of eight bytes.
        let op = unsafe { UserOp::new(ordered, std::ptr::null(), false) };
        // SAFETY: - it does nothing that a handler may not do, but where a test fails.
        let op = Op::User(if case.handler_safe { unsafe { op.handler_safe() } } else { op });
        let (op, data_type) =
            if case.built_in { (Op::Sum, DataType::U64) } else { (op, DataType::Opaque(8)) };
        let (block, recv) = (8 * count, recv.cast::<u8>());
        match case.operation {
            Operation::Ibarrier => Arguments::Ibarrier,
            Operation::Ibcast => Arguments::Ibcast { buffer: recv, bytes: block, root },
            Operation::Iscatter => match form {
                Form::Apart => {
                    Arguments::Iscatter { send: self.send.as_ptr().cast(), recv: Some(recv), block, root }
                }
                Form::InPlace => Arguments::Iscatter { send: recv, recv: None, block, root },
                Form::Same => Arguments::Iscatter {
                    send: recv,
                    recv: Some(recv.wrapping_add(rank * block)),
                    block,
                    root,
                },
            },
            Operation::Igather => Arguments::Igather { send, recv, block, root },
            Operation::Iallgather => Arguments::Iallgather { send, recv, block },
            Operation::Ialltoall => Arguments::Ialltoall { send, recv, block },
            Operation::Ireduce => Arguments::Ireduce { send, recv, count, data_type, op, root },
            Operation::Iallreduce => Arguments::Iallreduce { send, recv, count, data_type, op },
            Operation::IreduceScatter => {
                Arguments::IreduceScatter { send, recv, counts: &case.counts, data_type, op }
            }
            Operation::IreduceScatterBlock => {
                Arguments::IreduceScatterBlock { send, recv, count, data_type, op }
            }
            Operation::Iscan => Arguments::Iscan { send, recv, count, data_type, op },
            Operation::Iexscan => Arguments::Iexscan { send, recv, count, data_type, op },
            _ => unreachable!(),
        }
    }
}

const RUNS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Direct,
    Schedule,
    Persistent,
}

/// Each rank runs as far ahead as it may. `before`: how many have gone before on these.
fn run(machine: &mut Machine<End>, before: &mut u32, case: &Case, way: Way, random: &mut Random) {
    let what = format!("{case:?} {way:?}");
    let inputs: Vec<Vec<Vec<u64>>> = (0..RUNS)
        .map(|_| (0..case.ranks).map(|rank| (0..case.given(rank)).map(|_| random.word()).collect()).collect())
        .collect();
    machine.only_handlers = None;
    if random.chance(60) && (case.handler_safe || !case.operation.is_reduction()) {
        machine.only_handlers = Some(random.below(case.ranks));
    }
    let mut buffers: Vec<Buffers> = (0..case.ranks).map(|rank| Buffers::new(case, rank)).collect();
    let mut ids = vec![None; case.ranks];
    if way == Way::Persistent {
        for rank in 0..case.ranks {
            let arguments = buffers[rank].arguments(case, rank);
            let schedule =
                table::compile(&group(case.ranks as u32, rank as u32).with_board(0), &arguments, Some("shm"));
            let Rank { lower, nbc } = &mut machine.ranks[rank];
            ids[rank] = Some(nbc.prepare(lower, schedule.unwrap(), 1 << 31).unwrap());
        }
    }
    let mut begun = vec![0; case.ranks];
    let mut under_way = vec![false; case.ranks];
    let mut at_once: Vec<Option<Outcome>> = vec![None; case.ranks];
    let mut idle = 0;
    while begun.iter().any(|n| *n < RUNS) || under_way.iter().any(|on| *on) {
        let rank = random.below(case.ranks);
        if !under_way[rank] && begun[rank] < RUNS && random.chance(50) {
            buffers[rank].fill(case, rank, &inputs[begun[rank]]);
            begun[rank] += 1;
            under_way[rank] = true;
            let (sequence, board) =
                (*before + begun[rank] as u32, group(case.ranks as u32, rank as u32).with_board(0));
            let arguments = buffers[rank].arguments(case, rank);
            let Rank { lower, nbc } = &mut machine.ranks[rank];
            match way {
                Way::Direct => {
                    let mut call = table::call_on_board(&board, &arguments, Some("shm")).unwrap().unwrap();
                    if let Some(short) = table::short_on_board(&board, &arguments, Some("shm")) {
                        call = short;
                    }
                    call.number(sequence);
                    // SAFETY: - the buffers are left alone until it is done.
                    match unsafe { nbc.post_on_board(lower, &call, 1 << 31, sequence) }.unwrap() {
                        Posted::Done => at_once[rank] = Some(Outcome::default()),
                        Posted::Failed(outcome) => at_once[rank] = Some(outcome),
                        Posted::Waits(id) => ids[rank] = Some(id),
                    }
                }
                Way::Schedule => {
                    let schedule = table::compile(&board, &arguments, Some("shm")).unwrap();
                    // SAFETY: - as above.
                    ids[rank] = Some(unsafe { nbc.post(lower, schedule, 1 << 31, sequence) }.unwrap());
                }
                // SAFETY: - as above.
                Way::Persistent => unsafe { nbc.start(lower, ids[rank].unwrap(), sequence) }.unwrap(),
            }
            if machine.only_handlers == Some(rank) {
                // Who never waits is to hear of the end by itself.
                nbc.want_all(lower);
            }
            nbc.announce(lower);
        }
        let pass = machine.step(rank);
        idle = if pass == tocsin_progress::budget::Pass::Idle { idle + 1 } else { 0 };
        assert!(idle < 20_000, "hang: {what}");
        if !under_way[rank] {
            continue;
        }
        let outcome = at_once[rank].or_else(|| {
            let completion: NonNull<Completion> = machine.ranks[rank].nbc.completion(ids[rank]?)?;
            // SAFETY: - valid as long as the Nbc.
            unsafe { completion.as_ref() }.outcome()
        });
        let Some(outcome) = outcome else { continue };
        assert_eq!(outcome.code, Code::Ok, "{what}");
        assert_eq!(buffers[rank].recv, buffers[rank].expected, "rank {rank}, run {}: {what}", begun[rank]);
        let own = &inputs[begun[rank] - 1][rank];
        assert_eq!(buffers[rank].send[..own.len()], own[..], "the input was changed: {what}");
        // It is this rank's again.
        buffers[rank].send.fill(random.word());
        buffers[rank].recv.fill(random.word());
        under_way[rank] = false;
        if at_once[rank].take().is_none() && way != Way::Persistent {
            let Rank { lower, nbc } = &mut machine.ranks[rank];
            assert!(nbc.release(lower, ids[rank].take().unwrap()));
        }
    }
    for (Rank { lower, nbc }, id) in machine.ranks.iter_mut().zip(ids) {
        assert!(id.is_none_or(|id| nbc.release(lower, id)));
    }
    *before += RUNS as u32;
}

#[test]
fn every_form_of_every_rank() {
    let mut random = Random(0x0071_c05e);
    let operations = [
        Operation::Ibarrier,
        Operation::Ibcast,
        Operation::Iscatter,
        Operation::Igather,
        Operation::Iallgather,
        Operation::Ialltoall,
        Operation::Ireduce,
        Operation::Iallreduce,
        Operation::IreduceScatter,
        Operation::IreduceScatterBlock,
        Operation::Iscan,
        Operation::Iexscan,
    ];
    for ranks in 2..=5usize {
        let mut machine = Machine::new(network(ranks as u32, random.word()), random.word());
        let mut before = 0;
        for operation in operations {
            for root in 0..if operation.has_root() { ranks } else { 1 } {
                let free: Vec<usize> =
                    (0..ranks).filter(|rank| Case::has_form(operation, root, *rank)).collect();
                for word in 0..3usize.pow(free.len() as u32) {
                    let mut forms = vec![Form::Apart; ranks];
                    for (i, rank) in free.iter().enumerate() {
                        forms[*rank] = FORMS[word / 3usize.pow(i as u32) % 3];
                    }
                    let count = *random.pick(&[1, 5, 6, 7, 256 / ranks]);
                    let mut counts: Vec<usize> = (0..ranks).map(|_| random.below(4)).collect();
                    // Some first ones are empty: then another rank's part begins where the result goes.
                    if random.chance(40) {
                        counts[0] = 0;
                    }
                    if counts.iter().sum::<usize>() == 0 {
                        counts[ranks - 1] = 2;
                    }
                    let handler_safe = random.chance(70);
                    let case =
                        Case { operation, ranks, root, count, counts, forms, handler_safe, built_in: false };
                    for way in [Way::Direct, Way::Schedule, Way::Persistent] {
                        run(&mut machine, &mut before, &case, way, &mut random);
                    }
                }
            }
        }
    }
}

/// Blocks and vectors that are made in rounds: as many as a rank may post, and more; the last as long as the others, and shorter.
#[test]
fn every_form_in_rounds() {
    let mut random = Random(0x0071_c05f);
    let operations = [
        Operation::Ibcast,
        Operation::Iscatter,
        Operation::Igather,
        Operation::Iallgather,
        Operation::Ialltoall,
        Operation::Ireduce,
        Operation::Iallreduce,
        Operation::IreduceScatterBlock,
        Operation::Iscan,
        Operation::Iexscan,
    ];
    for ranks in 2..=4usize {
        let mut machine = Machine::new(network(ranks as u32, random.word()), random.word());
        let mut before = 0;
        for operation in operations {
            let each = match operation {
                Operation::Iscatter | Operation::Ialltoall => ranks - 1,
                Operation::IreduceScatterBlock => ranks,
                _ => 1,
            };
            for (bytes, way) in [
                ((1 << 20) + 8, Way::Direct),
                (2 << 20, Way::Schedule),
                ((3 << 20) - 8, Way::Persistent),
                ((5 << 20) + 4096, Way::Direct),
            ] {
                let root = random.below(if operation.has_root() { ranks } else { 1 });
                let forms = (0..ranks).map(|rank| {
                    let free = Case::has_form(operation, root, rank);
                    if free { *random.pick(&FORMS) } else { Form::Apart }
                });
                let forms: Vec<Form> = forms.collect();
                let count = bytes / 8 / each + 1;
                for built_in in [false, true] {
                    if built_in && !operation.is_reduction() {
                        continue;
                    }
                    let (counts, forms) = (Vec::new(), Vec::clone(&forms));
                    let case =
                        Case { operation, ranks, root, count, counts, forms, handler_safe: true, built_in };
                    run(&mut machine, &mut before, &case, way, &mut random);
                }
            }
        }
    }
}
