//! The orders in which a reader and a writer of a denied state may meet, played through by loom.
//!
//! `denied_cells.rs` is compiled once more, with atomics that loom watches.

use std::sync::atomic::Ordering::{Acquire, Release};

use loom::sync::Arc;

mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicU64, fence};
}

#[path = "../src/memory/denied_cells.rs"]
mod denied_cells;

use atomics::AtomicU64;
use denied_cells::DeniedCells;

/// Every order with no more than three changes of thread where none is needed: all of them would take hours.
fn model(play: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(play);
}

#[test]
fn a_copy_is_found_until_it_is_dropped_or_another_key_needs_the_place() {
    loom::model(|| {
        let cells = DeniedCells::new();
        assert_eq!(cells.get(2), None);
        cells.put(2, [7, 8]);
        cells.put(3, [9, 10]);
        assert_eq!((cells.get(2), cells.get(3), cells.get(4)), (Some([7, 8]), Some([9, 10]), None));
        cells.put(2, [7, 9]);
        assert_eq!(cells.get(2), Some([7, 9]));
        cells.forget(4);
        assert_eq!(cells.get(2), Some([7, 9]), "another key was forgotten");
        cells.put(4, [1, 2]);
        assert_eq!((cells.get(2), cells.get(4)), (None, Some([1, 2])));
    });
}

#[test]
fn a_reader_gets_a_whole_state_or_none() {
    model(|| {
        let cells = Arc::new(DeniedCells::new());
        cells.put(2, [10, 11]);
        let writer = {
            let cells = Arc::clone(&cells);
            loom::thread::spawn(move || {
                cells.put(4, [20, 21]);
                cells.put(2, [30, 31]);
            })
        };
        if let Some(words) = cells.get(2) {
            assert!([[10, 11], [30, 31]].contains(&words), "{words:?}");
        }
        if let Some(words) = cells.get(4) {
            assert_eq!(words, [20, 21]);
        }
        writer.join().expect("the writer ends");
        assert_eq!((cells.get(2), cells.get(4)), (Some([30, 31]), None));
    });
}

#[test]
fn who_heard_that_a_state_changed_does_not_find_it_as_it_was() {
    model(|| {
        let cells = Arc::new(DeniedCells::new());
        let told = Arc::new(AtomicU64::new(0));
        cells.put(2, [10, 11]);
        let writer = {
            let (cells, told) = (Arc::clone(&cells), Arc::clone(&told));
            loom::thread::spawn(move || {
                cells.forget(2);
                told.store(1, Release);
            })
        };
        if told.load(Acquire) == 1 {
            assert_eq!(cells.get(2), None);
        }
        writer.join().expect("the writer ends");
        assert_eq!(cells.get(2), None);
    });
}
