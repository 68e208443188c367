use super::*;

fn group() -> Group {
    Group::new(&[5, 6, 9], 1).unwrap()
}

fn refused(build: impl FnOnce(&mut ScheduleBuilder)) -> String {
    let mut b = ScheduleBuilder::new(&group());
    build(&mut b);
    b.finish().unwrap_err().to_string()
}

fn dangling() -> Mem {
    Mem::User(std::ptr::dangling_mut())
}

#[test]
fn dependants_are_laid_out_flat() {
    let mut b = ScheduleBuilder::new(&group());
    let first = b.join(&[]);
    let second = b.join(&[]);
    let third = b.join(&[second, first, second]);
    let last = b.join(&[third, first]);
    b.order(second, last);
    let schedule = b.finish().unwrap();
    let of = |i: usize| {
        let step = &schedule.steps[i];
        &schedule.dependants[step.first_dependant as usize..][..step.dependants as usize]
    };
    assert_eq!((of(0), of(1), of(2), of(3)), (&[2, 3][..], &[2, 3][..], &[3][..], &[][..]));
    let pending: Vec<_> = schedule.state.iter().map(|s| s.pending).collect();
    assert_eq!((pending, &*schedule.initial), (vec![0, 0, 2, 3], &[0, 1][..]));
}

#[test]
fn what_is_no_schedule_is_refused() {
    let message = refused(|b| {
        let (first, second) = (b.join(&[]), b.join(&[]));
        b.order(first, second);
        b.order(second, first);
    });
    assert!(message.contains("cycle"), "{message}");
    let message = refused(|b| {
        let step = b.join(&[]);
        b.order(step, step);
    });
    assert!(message.contains("depends on itself"), "{message}");
    let message = refused(|b| {
        b.join(&[StepId(7)]);
    });
    assert!(message.contains("does not exist"), "{message}");
    let message = refused(|b| {
        b.send(1, 0, dangling(), 0, &[]);
    });
    assert!(message.contains("to itself"), "{message}");
    let message = refused(|b| {
        b.recv(3, 0, dangling(), 0, &[]);
    });
    assert!(message.contains("outside the group"), "{message}");
    let message = refused(|b| {
        b.send(0, 1 << ROUND_BITS, dangling(), 0, &[]);
    });
    assert!(message.contains("rounds"), "{message}");
    let message = refused(|b| {
        b.recv(0, 3, dangling(), 0, &[]);
        b.recv(0, 3, dangling(), 8, &[]);
    });
    assert!(message.contains("the same round"), "{message}");
    let message = refused(|b| {
        let temp = b.temp(64);
        b.copy(temp, temp.at(32), 33, &[]);
    });
    assert!(message.contains("overlap") || message.contains("leaves the temporaries"), "{message}");
    let message = refused(|b| {
        let temp = b.temp(64);
        b.copy(temp, dangling(), 65, &[]);
    });
    assert!(message.contains("leaves the temporaries"), "{message}");
    let column = Block::strided(8, 3, 4, 20);
    let message = refused(|b| {
        let temp = b.temp(128);
        b.pack(temp, &column, temp.at(44), &[]);
    });
    assert!(message.contains("overlap"), "{message}");
    let message = refused(|b| {
        let temp = b.temp(128);
        b.unpack(temp.at(44), temp, &column, &[]);
    });
    assert!(message.contains("overlap"), "{message}");
    let message = refused(|b| {
        let temp = b.temp(64);
        b.unpack(dangling(), temp.at(13), &column, &[]);
    });
    assert!(message.contains("leaves the temporaries"), "{message}");
    let message = refused(|b| {
        b.pack(dangling(), &Block::strided(0, 3, 4, 3), Mem::Temp(0), &[]);
    });
    assert!(message.contains("pieces that overlap"), "{message}");
    let message = refused(|b| {
        let temp = b.temp(128);
        b.reverse(temp, temp.at(8), 4, 3, &[]);
    });
    assert!(message.contains("overlap"), "{message}");
    let message = refused(|b| {
        b.reverse(dangling(), dangling(), 4, 0, &[]);
    });
    assert!(message.contains("reverses nothing"), "{message}");
    let message = refused(|b| {
        let temp = b.temp(128);
        let operands = Reduction { left: temp, right: dangling(), out: temp.at(8), count: 2 };
        b.reduce(operands, DataType::F64, Op::Sum, &[]).unwrap();
    });
    assert!(message.contains("overlaps an operand"), "{message}");
    let message = refused(|b| {
        b.temp(usize::MAX - 100);
        b.temp(200);
    });
    assert!(message.contains("no memory"), "{message}");
}

#[test]
fn temporaries_are_apart_and_aligned() {
    let mut b = ScheduleBuilder::new(&group());
    assert_eq!((b.temp(1), b.temp(65), b.temp(0), b.temp(8)), {
        (Mem::Temp(0), Mem::Temp(64), Mem::Temp(192), Mem::Temp(192))
    });
}

/// What is not run takes no memory, and has as many rounds as it likes; else it is what would be run.
#[test]
fn outlines() {
    let build = || {
        let mut b = ScheduleBuilder::new(&group());
        let temp = b.temp(1000);
        let first = b.recv(0, 3, temp, 1000, &[]);
        let second = b.copy(temp, dangling(), 1000, &[first]);
        b.send(2, 4, temp, 1000, &[first, second]);
        b
    };
    let (outline, schedule) = (build().outline().unwrap(), build().finish().unwrap());
    assert_eq!(outline.len(), 3);
    assert!(outline.view().zip(schedule.view()).all(|(a, b)| format!("{a:?}") == format!("{b:?}")));
    let mut b = build();
    b.temp(isize::MAX as usize - 4096);
    b.send(0, 1 << ROUND_BITS, Mem::Temp(0), 8, &[]);
    assert_eq!(b.outline().unwrap().len(), 4);
    let mut b = build();
    b.temp(isize::MAX as usize);
    assert!(matches!(b.outline(), Err(Error::OutOfMemory { .. })));
}

#[test]
fn sends_that_begin_together_are_counted() {
    let mut b = ScheduleBuilder::new(&group());
    let received = b.recv(0, 0, dangling(), 8, &[]);
    let (copied, sent) = (b.join(&[]), b.send(0, 0, dangling(), 8, &[]));
    b.send(2, 0, dangling(), 8, &[copied]);
    b.send(0, 1, dangling(), 8, &[copied, sent]);
    b.send(2, 1, dangling(), 8, &[received]);
    assert_eq!(b.finish().unwrap().at_once, 2);
    for (algorithm, at_once) in [("linear", 2), ("pairwise", 1)] {
        let (send, recv) = (None, std::ptr::dangling_mut());
        let alltoall = crate::table::Arguments::Ialltoall { send, recv, block: 1 << 20 };
        let schedule = crate::table::compile(&group(), &alltoall, Some(algorithm)).unwrap();
        assert_eq!(schedule.at_once, at_once, "{algorithm}");
    }
}
