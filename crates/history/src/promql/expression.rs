//! What an expression is made of.

use super::matcher::Selector;

/// An expression.
#[derive(Debug, Clone)]
pub(super) enum Expression {
    Number(f64),
    Negative(Box<Expression>),
    /// A counter as it stands.
    Counter(Selector),
    /// A counter over a window.
    Window {
        function: Function,
        selector: Selector,
        length_ms: u64,
    },
    Aggregate {
        aggregate: Aggregate,
        over: Box<Expression>,
        grouping: Grouping,
    },
    Binary {
        operator: Operator,
        left: Box<Expression>,
        right: Box<Expression>,
        is_bool: bool,
    },
}

/// What is done with a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    /// How many a second.
    Rate,
    /// How many.
    Increase,
}

/// How many series become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aggregate {
    Sum,
    Average,
    Min,
    Max,
    Count,
    Top(usize),
    Bottom(usize),
}

/// Which series become one.
#[derive(Debug, Clone)]
pub(super) enum Grouping {
    By(Vec<String>),
    Without(Vec<String>),
}

impl Grouping {
    /// Whether a label stays.
    pub(super) fn keeps(&self, label: &str) -> bool {
        match self {
            Self::By(labels) => labels.iter().any(|own| own == label),
            Self::Without(labels) => label != "__name__" && !labels.iter().any(|own| own == label),
        }
    }
}

/// What is done with two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Equal,
    Unequal,
    Greater,
    Less,
    AtLeast,
    AtMost,
}

impl Operator {
    /// The operator of a sign, and how tightly it binds.
    pub(super) fn of_sign(sign: &str) -> Option<(Self, u8)> {
        Some(match sign {
            "==" => (Self::Equal, 1),
            "!=" => (Self::Unequal, 1),
            ">" => (Self::Greater, 1),
            "<" => (Self::Less, 1),
            ">=" => (Self::AtLeast, 1),
            "<=" => (Self::AtMost, 1),
            "+" => (Self::Add, 2),
            "-" => (Self::Subtract, 2),
            "*" => (Self::Multiply, 3),
            "/" => (Self::Divide, 3),
            _ => return None,
        })
    }

    pub(super) const fn is_comparison(self) -> bool {
        !matches!(self, Self::Add | Self::Subtract | Self::Multiply | Self::Divide)
    }
}
