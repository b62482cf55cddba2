//! What a store keeps for one key, packed.
//!
//! [`crate::decide`] reads a [`StateRef`] and hands back a new [`State`]; the
//! store only moves it, and asks it for its deadline.
//!
//! Invariant: after its deadline a state decides exactly as no state would,
//! so that a store may drop it unseen.
//!
//! Deliberately not here: maps, locks, hashes, and the meaning of the words,
//! which each algorithm keeps to itself.

pub use crate::packed_log::Log;
use crate::time::Time;

/// Bits of a packed cell that hold the deadline.
const DEADLINE_BITS: u32 = 53;
/// Bits of a packed cell's first word that an algorithm may use besides.
const HIGH_BITS: u32 = 9;
/// Low bits of the first word: a deadline.
const DEADLINE_MASK: u64 = (1 << DEADLINE_BITS) - 1;

/// The state of a constant-size algorithm: 16 bytes when packed.
///
/// ```
/// use tollgate_core::{Cell, Change, Limit, Micros, Operation, Shape, State, Time, decide};
/// let limit = Limit::new(10, Micros::SECOND, Shape::FixedWindow)?;
/// let (_, change) = decide(None, &limit, Time::EPOCH, Operation::Check, 1);
/// let Change::Put(state) = change else { panic!("a taken request is remembered") };
/// let State::Cell(cell) = state else { panic!("of a constant size") };
/// assert_eq!(Cell::unpack(cell.pack()), cell);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    deadline: Time,
    high: u16,
    low: u64,
}

impl Cell {
    /// The two highest bits of the first packed word are never used by a cell,
    /// so that a store has them for marks of its own.
    pub const FREE_BITS: u64 = !((1 << (DEADLINE_BITS + HIGH_BITS)) - 1);

    /// Of a pair whose first number is smaller than this, all bits are in the second packed word.
    pub(crate) const NEAR_MAX: u64 = 1 << 28;

    pub(crate) const fn new(deadline: Time, low: u64) -> Self {
        Self { deadline, high: 0, low }
    }

    /// A cell whose payload is two numbers below 2^36.
    pub(crate) fn of_pair(deadline: Time, first: u64, second: u64) -> Self {
        debug_assert!(first < 1 << 36 && second < 1 << 36, "a pair holds 36 bits each");
        let high = u16::try_from(first >> 28).unwrap_or(u16::MAX);
        Self { deadline, high, low: first << 36 | second }
    }

    pub(crate) fn pair(self) -> (u64, u64) {
        (u64::from(self.high) << 28 | self.low >> 36, self.low & ((1 << 36) - 1))
    }

    /// The packed words of a cell whose payload is a number below [`Cell::NEAR_MAX`] and one below 2^36.
    #[inline(always)]
    pub(crate) fn pack_near(deadline: Time, first: u64, second: u64) -> [u64; 2] {
        debug_assert!(first < Self::NEAR_MAX && second < 1 << 36, "no bit is left for the first word");
        [deadline.get(), first << 36 | second]
    }

    /// The deadline and the payload of such words; of any others the deadline is past [`Time::MAX`].
    #[inline(always)]
    pub(crate) const fn unpack_near([first, second]: [u64; 2]) -> (u64, u64, u64) {
        (first, second >> 36, second & ((1 << 36) - 1))
    }

    pub(crate) const fn low(self) -> u64 {
        self.low
    }

    /// From this instant on the cell is worth nothing.
    pub const fn deadline(self) -> Time {
        self.deadline
    }

    /// The two words to keep; [`Cell::FREE_BITS`] of the first are zero.
    pub fn pack(self) -> [u64; 2] {
        [self.deadline.get() | u64::from(self.high) << DEADLINE_BITS, self.low]
    }

    /// The cell that [`Cell::pack`] was called on, whatever the free bits are.
    pub fn unpack([first, low]: [u64; 2]) -> Self {
        let high = first >> DEADLINE_BITS & ((1 << HIGH_BITS) - 1);
        Self {
            deadline: Time::new(first & DEADLINE_MASK),
            high: u16::try_from(high).unwrap_or(u16::MAX),
            low,
        }
    }

    /// The deadline alone, from the first packed word.
    pub const fn packed_deadline(first: u64) -> Time {
        Time::new(first & DEADLINE_MASK)
    }
}

/// What a store keeps for one key.
///
/// ```
/// use tollgate_core::{Change, Limit, Micros, Operation, Shape, Time, decide};
/// let limit = Limit::new(10, Micros::SECOND, Shape::FixedWindow)?;
/// let (_, change) = decide(None, &limit, Time::EPOCH, Operation::Check, 1);
/// let Change::Put(state) = change else { panic!("a taken request is remembered") };
/// assert_eq!(state.deadline(), Time::from_secs(1));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Of a constant-size algorithm.
    Cell(Cell),
    /// Of the sliding log or the sub-windows.
    Log(Log),
}

impl State {
    /// From this instant on the state is worth nothing.
    pub fn deadline(&self) -> Time {
        self.as_ref().deadline()
    }

    /// The same, borrowed.
    pub const fn as_ref(&self) -> StateRef<'_> {
        match self {
            Self::Cell(cell) => StateRef::Cell(*cell),
            Self::Log(log) => StateRef::Log(log),
        }
    }
}

impl From<Cell> for State {
    fn from(cell: Cell) -> Self {
        Self::Cell(cell)
    }
}

/// A [`State`] as the maths reads it.
///
/// ```
/// use tollgate_core::{Change, Limit, Micros, Operation, Shape, Time, decide};
/// let limit = Limit::new(10, Micros::SECOND, Shape::FixedWindow)?;
/// let (_, change) = decide(None, &limit, Time::EPOCH, Operation::Check, 1);
/// let Change::Put(state) = change else { panic!("a taken request is remembered") };
/// let (again, _) = decide(Some(state.as_ref()), &limit, Time::EPOCH, Operation::Check, 1);
/// assert_eq!(again.used, 2);
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub enum StateRef<'a> {
    /// Of a constant-size algorithm.
    Cell(Cell),
    /// Of the sliding log or the sub-windows.
    Log(&'a Log),
}

impl StateRef<'_> {
    /// From this instant on the state is worth nothing.
    pub fn deadline(self) -> Time {
        match self {
            Self::Cell(cell) => cell.deadline(),
            Self::Log(log) => log.deadline(),
        }
    }

    /// The same, owned.
    pub fn to_state(self) -> State {
        match self {
            Self::Cell(cell) => State::Cell(cell),
            Self::Log(log) => State::Log(log.clone()),
        }
    }

    pub(crate) const fn cell(self) -> Option<Cell> {
        match self {
            Self::Cell(cell) => Some(cell),
            Self::Log(_) => None,
        }
    }
}

impl<'a> StateRef<'a> {
    pub(crate) const fn log(self) -> Option<&'a Log> {
        match self {
            Self::Log(log) => Some(log),
            Self::Cell(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_cell_comes_back_as_it_was() {
        let most = (1 << 36) - 1;
        for (first, second) in [(0, 0), (most, most), (1, most), (most, 1), (1 << 28, 1 << 35)] {
            let cell = Cell::of_pair(Time::MAX, first, second);
            let [a, b] = cell.pack();
            assert_eq!(a & Cell::FREE_BITS, 0);
            assert_eq!(Cell::unpack([a | Cell::FREE_BITS, b]), cell);
            assert_eq!(Cell::packed_deadline(a | Cell::FREE_BITS), Time::MAX);
            assert_eq!(cell.pair(), (first, second));
        }
    }
}
