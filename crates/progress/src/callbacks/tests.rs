use super::*;
use crate::Code;
use std::sync::mpsc;
use std::time::Duration;

fn outcome(bytes: u64) -> Outcome {
    Outcome { bytes, ..Outcome::default() }
}

#[test]
fn runs_at_once_when_done_already() {
    let callbacks = Callbacks::new(false);
    let completion = Completion::new();
    completion.finish(outcome(5));
    let (tx, rx) = mpsc::channel();
    callbacks.set(&completion, Box::new(move |o| tx.send(o.bytes).unwrap())).unwrap();
    assert_eq!(rx.try_recv(), Ok(5));
}

#[test]
fn runs_in_order_of_completion() {
    let callbacks = Callbacks::new(false);
    let (tx, rx) = mpsc::channel();
    let completions: Vec<_> = (0..5).map(|_| Completion::new()).collect();
    for completion in &completions {
        let tx = tx.clone();
        callbacks.set(completion, Box::new(move |o| tx.send(o.bytes).unwrap())).unwrap();
    }
    assert!(matches!(callbacks.set(&completions[0], Box::new(|_| ())), Err(SetError::Occupied)));
    for (i, n) in [3, 1, 4, 0, 2].into_iter().enumerate() {
        completions[n].finish(outcome(i as u64));
    }
    assert!(rx.try_recv().is_err());
    assert_eq!(callbacks.run(), 5);
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), vec![0, 1, 2, 3, 4]);
    assert_eq!(callbacks.count(), 5);
}

#[test]
fn thread_runs_them() {
    let callbacks = Callbacks::new(true);
    let completion = Completion::new();
    let (tx, rx) = mpsc::channel();
    callbacks.set(&completion, Box::new(move |o| tx.send(o.code).unwrap())).unwrap();
    completion.finish(Outcome { code: Code::Cancelled, ..Outcome::default() });
    callbacks.notify();
    assert_eq!(rx.recv_timeout(Duration::from_secs(10)), Ok(Code::Cancelled));
}

/// Nobody wakes the thread for what it finds itself, and it stops looking when that brings nothing.
#[test]
fn thread_looks_on_as_long_as_that_brings_callbacks() {
    let callbacks = Callbacks::new(true);
    let completions: Arc<[Completion]> = (0..4).map(|_| Completion::new()).collect();
    let (tx, rx) = mpsc::channel();
    for completion in &completions[..3] {
        let tx = tx.clone();
        callbacks.set(completion, Box::new(move |o| tx.send(o.bytes).unwrap())).unwrap();
    }
    let (looks, looked) = mpsc::channel();
    let next = AtomicU64::new(1);
    callbacks.set_look(Box::new({
        let completions = completions.clone();
        move || {
            let at = next.fetch_add(1, Ordering::Relaxed);
            // The last one has no callback.
            completions[at as usize].finish(outcome(at));
            looks.send(at).unwrap();
        }
    }));
    completions[0].finish(outcome(0));
    callbacks.notify();
    let ran: Vec<_> = (0..3).map(|_| rx.recv_timeout(Duration::from_secs(10)).unwrap()).collect();
    assert_eq!(ran, [0, 1, 2]);
    let looks: Vec<_> = (0..3).map(|_| looked.recv_timeout(Duration::from_secs(10)).unwrap()).collect();
    assert_eq!(looks.last(), Some(&3));
    // Ends the thread.
    drop(callbacks);
    assert!(looked.try_recv().is_err());
}

#[test]
fn withdrawn_and_replaced() {
    let callbacks = Callbacks::new(false);
    let completion = Completion::new();
    let (tx, rx) = mpsc::channel();
    let first = tx.clone();
    callbacks.set(&completion, Box::new(move |_| first.send(1).unwrap())).unwrap();
    let second = tx.clone();
    assert!(callbacks.replace(&completion, Box::new(move |_| second.send(2).unwrap())).unwrap());
    let third = tx.clone();
    assert!(callbacks.replace(&completion, Box::new(move |_| third.send(3).unwrap())).unwrap());
    completion.finish(outcome(0));
    assert!(!callbacks.replace(&completion, Box::new(|_| ())).unwrap());
    callbacks.run();
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), vec![3]);
    completion.reset();
    callbacks.set(&completion, Box::new(move |_| tx.send(4).unwrap())).unwrap();
    assert!(callbacks.withdraw(&completion));
    assert!(!callbacks.withdraw(&completion));
    completion.finish(outcome(0));
    assert_eq!(callbacks.run(), 0);
    assert!(rx.try_iter().next().is_none());
}

#[test]
fn a_panic_stays_inside() {
    let callbacks = Callbacks::new(false);
    let (a, b) = (Completion::new(), Completion::new());
    let (tx, rx) = mpsc::channel();
    callbacks.set(&a, Box::new(|_| panic!("on purpose"))).unwrap();
    callbacks.set(&b, Box::new(move |_| tx.send(()).unwrap())).unwrap();
    a.finish(outcome(0));
    b.finish(outcome(0));
    assert_eq!(callbacks.run(), 2);
    assert!(rx.try_recv().is_ok());
}

#[test]
fn a_callback_that_completes_another_does_not_nest() {
    let callbacks = Arc::new(Callbacks::new(false));
    let (a, b) = (Completion::new(), Arc::new(Completion::new()));
    let (tx, rx) = mpsc::channel();
    let done = tx.clone();
    callbacks.set(&b, Box::new(move |_| done.send("b").unwrap())).unwrap();
    let (inner, finish) = (callbacks.clone(), b.clone());
    callbacks
        .set(
            &a,
            Box::new(move |_| {
                finish.finish(outcome(0));
                assert_eq!(inner.run(), 0);
                tx.send("a").unwrap();
            }),
        )
        .unwrap();
    a.finish(outcome(0));
    assert_eq!(callbacks.run(), 2);
    assert_eq!(rx.try_iter().collect::<Vec<_>>(), vec!["a", "b"]);
}

/// Somebody else waits for that.
#[test]
fn thread_does_its_chore_between_callbacks_without_end() {
    let callbacks = Arc::new(Callbacks::new(true));
    let (did, done) = mpsc::channel();
    callbacks.set_chore(Box::new(move || did.send(()).unwrap()));
    let (over, is_over) = mpsc::channel();
    let at = AtomicU32::new(0);
    callbacks.set_look(Box::new({
        let callbacks = Arc::downgrade(&callbacks);
        let done = Mutex::new(done);
        move || {
            let Some(callbacks) = callbacks.upgrade() else { return };
            let at = at.fetch_add(1, Ordering::Relaxed);
            if at == 0 {
                callbacks.ask_chore();
            }
            let is_done = done.lock().unwrap().try_recv().is_ok();
            if is_done || at > 100 {
                let _is_told = over.send(is_done);
                return;
            }
            let next = Completion::new();
            callbacks.set(&next, Box::new(|_| ())).unwrap();
            next.finish(outcome(0));
        }
    }));
    let first = Completion::new();
    callbacks.set(&first, Box::new(|_| ())).unwrap();
    first.finish(outcome(0));
    callbacks.notify();
    assert!(is_over.recv_timeout(Duration::from_secs(10)).unwrap(), "callbacks alone");
}
