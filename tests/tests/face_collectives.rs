//! All collectives by the face, with ranks as threads: owned, scoped and blocking, on every backend; and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use tocsin_tests::worlds::everywhere; // Links the tripwire allocator, too.

use tocsin::{Block, Blocks, Error, Op, UserOp, World};

/// The elements that `from` has for `to`.
fn block(from: u32, to: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| from * 1_000_000 + to * 10_000 + i).collect()
}

#[test]
fn blocks_of_one_length() {
    everywhere(1..=5, |comm| {
        let (me, ranks, len) = (comm.rank(), comm.size(), 700);
        let all = |of: &dyn Fn(u32) -> Vec<u32>| (0..ranks).flat_map(of).collect::<Vec<u32>>();
        for root in 0..ranks {
            let send = if me == root { all(&|to| block(root, to, len)) } else { Vec::new() };
            assert_eq!(comm.iscatter(send.clone(), vec![0; len], root)?.wait()?, block(root, me, len));
            let mut recv = vec![0; len];
            comm.scatter(&send, &mut recv, root)?;
            assert_eq!(recv, block(root, me, len));

            let room = if me == root { len * ranks as usize } else { 0 };
            let gathered = comm.igather(block(me, root, len), vec![0; room], root)?.wait()?;
            if me == root {
                assert_eq!(gathered, all(&|from| block(from, root, len)));
            }
        }
        let mut gathered = vec![0; len * ranks as usize];
        comm.allgather(&block(me, 0, len), &mut gathered)?;
        assert_eq!(gathered, all(&|from| block(from, 0, len)));
        let owned = comm.iallgather(block(me, 1, len), gathered)?.wait()?;
        assert_eq!(owned, all(&|from| block(from, 1, len)));
        Ok(())
    });
}

#[test]
fn blocks_of_many_lengths() {
    everywhere(1..=5, |comm| {
        let (me, ranks) = (comm.rank(), comm.size());
        let counts: Vec<usize> = (0..ranks as usize).map(|r| 300 * (r % 3)).collect();
        // Backwards, one element apart.
        let mut starts = vec![0; ranks as usize];
        let mut whole = 0;
        for r in (0..ranks as usize).rev() {
            starts[r] = whole;
            whole += counts[r] + 1;
        }
        let own = counts[me as usize];
        let at = Blocks::placed(&counts, &starts);
        let filled = |of: &dyn Fn(u32) -> u32, to: &dyn Fn(u32) -> u32| {
            let mut all = vec![7; whole];
            for r in 0..ranks {
                let (start, count) = (starts[r as usize], counts[r as usize]);
                all[start..start + count].copy_from_slice(&block(of(r), to(r), count));
            }
            all
        };
        let root = ranks / 2;
        let send = if me == root { filled(&|_| root, &|r| r) } else { Vec::new() };
        assert_eq!(comm.iscatterv(send, at, vec![0; own], root)?.wait()?, block(root, me, own));
        let room = if me == root { whole } else { 0 };
        let gathered = comm.igatherv(block(me, root, own), vec![7; room], at, root)?.wait()?;
        if me == root {
            assert_eq!(gathered, filled(&|r| r, &|_| root));
        }
        let mut gathered = vec![7; whole];
        comm.allgatherv(&block(me, 0, own), &mut gathered, at)?;
        assert_eq!(gathered, filled(&|r| r, &|_| 0));
        Ok(())
    });
}

#[test]
fn exchanges_of_many_lengths() {
    everywhere(1..=5, |comm| {
        let (me, ranks) = (comm.rank(), comm.size());
        let length = |a: u32, b: u32| 200 * ((a + b) as usize % 3);
        let counts: Vec<usize> = (0..ranks).map(|r| length(me, r)).collect();
        let all: Vec<u32> = (0..ranks).flat_map(|to| block(me, to, length(me, to))).collect();
        let right: Vec<u32> = (0..ranks).flat_map(|from| block(from, me, length(me, from))).collect();
        let packed = Blocks::packed(&counts);
        assert_eq!(comm.ialltoallv(all.clone(), packed, vec![0; all.len()], packed)?.wait()?, right);
        let mut recv = vec![0; all.len()];
        comm.alltoallv(&all, packed, &mut recv, packed)?;
        assert_eq!(recv, right);

        // The same bytes, received as elements of another type.
        let mut offset = 0;
        let bytes: Vec<Block> = counts
            .iter()
            .map(|count| {
                let at = Block::new(offset, count * 4);
                offset += at.bytes;
                at
            })
            .collect();
        let got = comm.ialltoallw(all, &bytes, vec![0u16; right.len() * 2], &bytes)?.wait()?;
        let expected: Vec<u16> = right
            .iter()
            .flat_map(|x| x.to_le_bytes())
            .collect::<Vec<u8>>()
            .chunks_exact(2)
            .map(|c| u16::from_le_bytes([c[0], c[1]]))
            .collect();
        assert_eq!(got, expected);
        Ok(())
    });
}

/// Strings over three letters, packed into an integer: joining them is associative and not commutative.
fn join(left: u64, right: u64) -> u64 {
    let letters = |mut x: u64| {
        let mut n = 0;
        while x > 0 {
            (x, n) = (x / 4, n + 1);
        }
        n
    };
    left << (2 * letters(right)) | right
}

#[test]
fn reductions() {
    everywhere(1..=5, |comm| {
        let (me, ranks) = (comm.rank(), comm.size());
        let len = 600usize;
        let mine: Vec<u64> = (0..len as u64).map(|i| (i + u64::from(me)) % 3 + 1).collect();
        let joined = |ranks: std::ops::Range<u32>, i: usize| {
            ranks.map(|r| (i as u64 + u64::from(r)) % 3 + 1).reduce(join).unwrap()
        };
        let ordered = Op::User(UserOp::ordered(join));
        for root in 0..ranks {
            let got = comm.ireduce(mine.clone(), ordered, root)?.wait()?;
            let right =
                if me == root { (0..len).map(|i| joined(0..ranks, i)).collect() } else { mine.clone() };
            assert_eq!(got, right);
        }
        let mut prefix = mine.clone();
        comm.scan(&mut prefix, ordered)?;
        assert!((0..len).all(|i| prefix[i] == joined(0..me + 1, i)));
        let before = comm.iexscan(mine.clone(), ordered)?.wait()?;
        assert!((0..len).all(|i| before[i] == if me == 0 { mine[i] } else { joined(0..me, i) }));

        let each = 30;
        let start = me as usize * each;
        let whole = &mine[..each * ranks as usize];
        let part = comm.ireduce_scatter_block(whole.to_vec(), vec![0; each], ordered)?.wait()?;
        assert!((0..each).all(|i| part[i] == joined(0..ranks, start + i)));
        let counts: Vec<usize> = (0..ranks as usize).map(|r| r * 10).collect();
        let start: usize = counts[..me as usize].iter().sum();
        let whole = &mine[..counts.iter().sum()];
        let mut part = vec![0; counts[me as usize]];
        comm.reduce_scatter(whole, &mut part, &counts, ordered)?;
        assert!((0..part.len()).all(|i| part[i] == joined(0..ranks, start + i)));

        let mut sums = vec![me as u64; 5];
        comm.reduce(&mut sums, Op::Sum, 0)?;
        let sum = u64::from(ranks * (ranks - 1) / 2);
        assert_eq!(sums, if me == 0 { [sum; 5] } else { [me as u64; 5] });
        Ok(())
    });
}

#[test]
fn several_at_once_in_a_scope() {
    everywhere(1..=5, |comm| {
        let (me, ranks) = (comm.rank(), comm.size() as usize);
        let (mut sums, mut all, mut blocks) = ([1u64; 40], vec![0u32; ranks * 9], vec![0u32; 9]);
        let (mine, scattered) = (block(me, 0, 9), vec![5u32; ranks * 9]);
        comm.scope(|s| {
            let scan = s.iscan(&mut sums, Op::Sum)?;
            let gather = s.iallgather(&mine, &mut all)?;
            let scatter = s.iscatter(&scattered, &mut blocks, 0)?;
            scatter.wait()?;
            scan.wait()?;
            gather.wait()?;
            Ok(())
        })?;
        assert_eq!(sums, [u64::from(me) + 1; 40]);
        assert!(all.chunks(9).zip(0..).all(|(got, from)| got == block(from, 0, 9)));
        assert_eq!(blocks, [5; 9]);
        Ok(())
    });
}

#[test]
fn what_does_not_fit_is_refused_with_a_text() {
    let results = World::threads(3, |comm| {
        let three = [1, 1, 1];
        let texts = [
            comm.iscatter(vec![0u8; 7], vec![0u8; 2], comm.rank()).map(drop),
            comm.igather(vec![0u8; 2], vec![0u8; 7], comm.rank()).map(drop),
            comm.iscatter(vec![0u8; 6], vec![0u8; 2], 3).map(drop),
            comm.iallgather(vec![0u8; 2], vec![0u8; 7]).map(drop),
            comm.iallgatherv(vec![0u8; 1], vec![0u8; 3], Blocks::packed(&[1, 1])).map(drop),
            comm.iallgatherv(vec![0u8; 1], vec![0u8; 2], Blocks::packed(&three)).map(drop),
            comm.iallgatherv(vec![0u8; 1], vec![0u8; 9], Blocks::placed(&three, &[0, 4, 4])).map(drop),
            comm.iallgatherv(vec![0u8; 2], vec![0u8; 9], Blocks::packed(&three)).map(drop),
            comm.iallgatherv(vec![0u8; 1], vec![0u8; 9], Blocks::placed(&three, &[0, usize::MAX, 4]))
                .map(drop),
            comm.ireduce_scatter(vec![0u8; 3], vec![0u8; 1], &[1, 1, 2], Op::Sum).map(drop),
            comm.ireduce_scatter_block(vec![0u8; 4], vec![0u8; 1], Op::Sum).map(drop),
            comm.ialltoallw(vec![0u8; 3], &[Block::new(3, 1); 3], vec![0u8; 3], &[]).map(drop),
            comm.iscan(vec![0f32; 3], Op::BAnd).map(drop),
            comm.with_algorithm("rumour").igather(vec![0u8; 1], vec![0u8; 3], 0).map(drop),
            comm.with_algorithm("recursive-doubling").iallgather(vec![0u8; 1], vec![0u8; 3]).map(drop),
            comm.with_algorithm("pairwise")
                .ireduce_scatter_block(vec![0u8; 3], vec![0u8; 1], Op::User(UserOp::ordered(|a, _| a)))
                .map(drop),
        ];
        // What was refused alike on all ranks leaves them in step.
        comm.barrier()?;
        Ok::<_, Error>(texts.map(|result| result.unwrap_err().to_string()))
    })
    .unwrap();
    let says = [
        "iscatter: the send buffer has 7 elements, the receive buffer 2",
        "igather: the receive buffer has 7 elements, the send buffer 2",
        "iscatter: root 3 is out of range",
        "iallgather: the receive buffer has 7 elements",
        "needs one block for each of the 3 ranks",
        "block 2 of the receive buffer, 1 elements from 2 on, leaves its 2 elements",
        "two blocks of the receive buffer overlap",
        "the send buffer has 2 elements, this rank's block 1",
        "leaves its 9 elements",
        "give one count for each of the 3 ranks",
        "the send buffer has 4 elements, the receive buffer 1",
        "the send buffer needs one block for each of the 3 ranks, all within its 3 bytes",
        "operator band is not defined on f32",
        "no algorithm `rumour` here: choose one of binomial, linear",
        "needs a number of ranks that is a power of two",
        "needs a commutative operator",
    ];
    for texts in results {
        for (text, says) in texts.unwrap().iter().zip(says) {
            assert!(text.contains(says), "{text:?} does not say {says:?}");
        }
    }
}
