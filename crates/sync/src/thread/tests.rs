use super::*;

#[test]
fn pointers_differ_between_threads() {
    let mine = pointer();
    assert!(mine > RESERVED);
    assert_eq!(mine, pointer());
    let other = std::thread::spawn(pointer);
    assert_ne!(mine, other.join().unwrap());
}

#[test]
fn registered_until_dropped() {
    let place = 7u32;
    let context_here = (&raw const place).cast();
    assert!(context().is_null());
    let registration = register(context_here).unwrap();
    assert_eq!(context(), context_here);
    assert!(matches!(register(context_here), Err(TableFull)));
    std::thread::scope(|s| {
        s.spawn(|| assert!(context().is_null()));
    });
    drop(registration);
    assert!(context().is_null());
}

#[test]
fn scopes_nest() {
    let outside = HandlerScope::enter();
    assert_eq!((outside.depth(), in_handler()), (0, false), "no registration, no depth");
    drop(outside);
    let registration = register(core::ptr::null()).unwrap();
    assert!(!in_handler());
    {
        let one = HandlerScope::enter();
        assert_eq!((one.depth(), depth(), in_handler()), (1, 1, true));
        let two = HandlerScope::enter();
        assert_eq!((two.depth(), depth()), (2, 2));
        drop(two);
        assert_eq!(depth(), 1);
    }
    assert!(!in_handler());
    drop(registration);
}

#[test]
fn many_threads_at_once() {
    const THREADS: usize = 64;
    let all_in = std::sync::Barrier::new(THREADS);
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                for round in 0..50usize {
                    let context_here = core::ptr::without_provenance::<()>(pointer().wrapping_add(round));
                    let registration = register(context_here).unwrap();
                    assert_eq!(context(), context_here);
                    if round == 25 {
                        all_in.wait();
                    }
                    drop(registration);
                }
            });
        }
    });
    assert!(DEEPEST.load(Ordering::Relaxed) < MAX_PROBE);
}
