//! The numbers of a penalty: who is denied too often is blocked for a while.
//!
//! A limit may have one. `strikes` decides by it, in Lua `penalty.lua`; page:
//! `spec/penalty.md`.
//!
//! Deliberately not here: what is kept of a key, and which denials count.

use std::fmt;

use crate::time::Micros;

/// The time of each strike is kept until there are enough of them.
pub const STRIKES_MAX: u32 = 100;
/// A block is at most so many times as long as the one before.
pub const FACTOR_MAX: u32 = 100;
/// No block is longer, nor the time in which strikes count: 50 years, as for a window.
pub const BLOCK_MAX: Micros = Micros::from_secs(1_576_800_000);

/// `{ after: 5, within: 1m, block: 10m }`: who is denied that often is blocked
/// that long.
///
/// ```
/// use tollgate_core::{Micros, Penalty};
/// let minute = Micros::from_secs(60);
/// let penalty = Penalty::new(5, minute, minute.times(10))?;
/// assert_eq!(penalty.block_length(3), minute.times(10), "each block is as long as the first");
/// let doubling = penalty.growing(2, minute.times(60))?;
/// assert_eq!([0, 1, 2, 3].map(|before| doubling.block_length(before).get() / 60_000_000), [10, 20, 40, 60]);
/// # Ok::<(), tollgate_core::PenaltyError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Penalty {
    after: u32,
    within: Micros,
    block: Micros,
    factor: u32,
    max: Micros,
}

impl Penalty {
    /// A block of `block` for whoever is denied `after` times `within` that time.
    ///
    /// # Errors
    /// If a number is out of range.
    pub const fn new(after: u32, within: Micros, block: Micros) -> Result<Self, PenaltyError> {
        if after == 0 || after > STRIKES_MAX {
            return Err(PenaltyError::After { after });
        }
        if !is_span(within) {
            return Err(PenaltyError::Within { within });
        }
        if !is_span(block) {
            return Err(PenaltyError::Block { block });
        }
        Ok(Self { after, within, block, factor: 1, max: block })
    }

    /// The same, each block in a row `factor` times as long as the one before,
    /// up to `max`.
    ///
    /// # Errors
    /// If the factor is out of range, or `max` is shorter than the first block.
    pub const fn growing(self, factor: u32, max: Micros) -> Result<Self, PenaltyError> {
        if factor < 2 || factor > FACTOR_MAX {
            return Err(PenaltyError::Factor { factor });
        }
        if !is_span(max) || max.get() < self.block.get() {
            return Err(PenaltyError::Max { max, block: self.block });
        }
        Ok(Self { factor, max, ..self })
    }

    /// How many denials begin a block.
    pub const fn after(&self) -> u32 {
        self.after
    }

    /// In which time they come.
    pub const fn within(&self) -> Micros {
        self.within
    }

    /// How long the first block lasts.
    pub const fn block(&self) -> Micros {
        self.block
    }

    /// By what each block is longer than the one before; 1 if it is not.
    pub const fn factor(&self) -> u32 {
        self.factor
    }

    /// How long a block lasts at most.
    pub const fn max(&self) -> Micros {
        self.max
    }

    /// How long a block lasts that follows so many others.
    pub fn block_length(&self, before: u64) -> Micros {
        let mut length = self.block;
        for _ in 0..before {
            if length >= self.max {
                break;
            }
            length = length.times(u64::from(self.factor)).min(self.max);
        }
        length.min(self.max)
    }
}

const fn is_span(span: Micros) -> bool {
    span.get() > 0 && span.get() <= BLOCK_MAX.get()
}

/// `5 denials within 1m block for 10m, each time 2 times as long, at most 1d`.
impl fmt::Display for Penalty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, within, block, factor, max } = self;
        let (denials, verb) = if *after == 1 { ("denial", "blocks") } else { ("denials", "block") };
        write!(f, "{after} {denials} within {within} {verb} for {block}")?;
        match factor {
            1 => Ok(()),
            factor => write!(f, ", each time {factor} times as long, at most {max}"),
        }
    }
}

/// Why numbers make no penalty, and what to write instead.
///
/// ```
/// use tollgate_core::{Micros, Penalty};
/// let error = Penalty::new(0, Micros::SECOND, Micros::SECOND).unwrap_err();
/// assert_eq!(error.to_string(), "a penalty after 0 denials is out of range; write after: 1 to 100");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PenaltyError {
    /// The number of denials is out of range.
    After {
        /// The number asked for.
        after: u32,
    },
    /// The time in which they come is out of range.
    Within {
        /// The time asked for.
        within: Micros,
    },
    /// The length of the first block is out of range.
    Block {
        /// The length asked for.
        block: Micros,
    },
    /// The factor is out of range.
    Factor {
        /// The factor asked for.
        factor: u32,
    },
    /// The longest block is out of range, or shorter than the first.
    Max {
        /// The length asked for.
        max: Micros,
        /// That of the first block.
        block: Micros,
    },
}

impl fmt::Display for PenaltyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After { after } => {
                write!(f, "a penalty after {after} denials is out of range; write after: 1 to {STRIKES_MAX}")
            }
            Self::Within { within } => {
                write!(f, "within: {within} is out of range; write a time from 1us to {BLOCK_MAX}")
            }
            Self::Block { block } => {
                write!(f, "a block of {block} is out of range; write block: 1us to {BLOCK_MAX}")
            }
            Self::Factor { factor } => {
                write!(f, "factor: {factor} is out of range; write factor: 2 to {FACTOR_MAX}")
            }
            Self::Max { max, block } => write!(
                f,
                "a longest block of {max} is out of range; write max: {block} (the first block) to {BLOCK_MAX}"
            ),
        }
    }
}

impl std::error::Error for PenaltyError {}
