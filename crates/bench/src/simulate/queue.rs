//! What is going to happen, by time; ties in the order in which they arose.
//!
//! Ranks that do the same do it at the same time, so that there are far fewer times than events: those of one time are a list, and lists that
//! are empty are used again.

use std::collections::BTreeMap;

pub(super) struct Queue<E> {
    /// Of the current time, of which those before `next` have happened.
    current: Vec<E>,
    next: usize,
    now: u64,
    later: BTreeMap<u64, Vec<E>>,
    empty: Vec<Vec<E>>,
    len: usize,
}

impl<E: Copy> Queue<E> {
    pub(super) fn new() -> Queue<E> {
        let (current, later, empty) = (Vec::new(), BTreeMap::new(), Vec::new());
        Queue { current, next: 0, now: 0, later, empty, len: 0 }
    }

    /// Events to come.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Not before the time of what was taken last.
    pub(super) fn push(&mut self, time: u64, event: E) {
        self.len += 1;
        if time == self.now {
            return self.current.push(event);
        }
        let empty = &mut self.empty;
        self.later.entry(time).or_insert_with(|| empty.pop().unwrap_or_default()).push(event);
    }

    pub(super) fn pop(&mut self) -> Option<(u64, E)> {
        if self.next == self.current.len() {
            let (time, events) = self.later.pop_first()?;
            let mut before = std::mem::replace(&mut self.current, events);
            before.clear();
            self.empty.push(before);
            (self.now, self.next) = (time, 0);
        }
        let event = *self.current.get(self.next)?;
        self.next += 1;
        self.len -= 1;
        Some((self.now, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_order_of_times_and_then_of_arising() {
        let mut queue = Queue::new();
        for (time, event) in [(5, 'c'), (0, 'a'), (7, 'f'), (5, 'd'), (0, 'b')] {
            queue.push(time, event);
        }
        let mut order = String::new();
        while let Some((time, event)) = queue.pop() {
            order.push(event);
            match event {
                'c' => queue.push(time, 'e'),
                'e' => queue.push(time + 1, 'x'),
                'f' => queue.push(time, 'g'),
                _ => {}
            }
        }
        assert_eq!((order.as_str(), queue.len()), ("abcdexfg", 0));
    }
}
