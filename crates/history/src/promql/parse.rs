//! Tokens become an expression.
//!
//! Invariant: nesting is bounded, so that no text exhausts the stack.

use super::Error;
use super::expression::{Aggregate, Expression, Function, Grouping, Operator};
use super::lex::{Token, tokens, wrong};
use super::matcher::{Matcher, Selector};

/// How deep expressions may nest.
const DEPTH_MAX: usize = 32;

/// How many rows `topk` and `bottomk` may have.
const TOP_MAX: f64 = 10_000.0;

/// The expression of a text.
pub(super) fn parse(text: &str) -> Result<Expression, Error> {
    let mut parser = Parser::new(text)?;
    let expression = parser.binary(1)?;
    parser.end()?;
    Ok(expression)
}

/// The selector of a text that is nothing else.
pub(super) fn selector(text: &str) -> Result<Selector, Error> {
    let mut parser = Parser::new(text)?;
    let name = parser.name();
    let selector = parser.selector(name)?;
    parser.end()?;
    Ok(selector)
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<(usize, Token)>>,
    /// The place behind the last token.
    end: usize,
    depth: usize,
}

impl Parser {
    fn new(text: &str) -> Result<Self, Error> {
        Ok(Self { tokens: tokens(text)?.into_iter().peekable(), end: text.len() + 1, depth: 0 })
    }

    fn at(&mut self) -> usize {
        self.tokens.peek().map_or(self.end, |(at, _)| *at)
    }

    fn wrong<T>(&mut self, what: &str) -> Result<T, Error> {
        let at = self.at();
        Err(wrong(at, what))
    }

    fn end(&mut self) -> Result<(), Error> {
        if self.tokens.peek().is_some() {
            return self.wrong("the expression is over here, and more follows");
        }
        Ok(())
    }

    /// Whether the next token is that sign; takes it if so.
    fn takes(&mut self, sign: &str) -> bool {
        self.tokens.next_if(|(_, token)| matches!(token, Token::Sign(own) if *own == sign)).is_some()
    }

    fn needs(&mut self, sign: &str) -> Result<(), Error> {
        if self.takes(sign) { Ok(()) } else { self.wrong(&format!("there must be a {sign} here")) }
    }

    /// Whether the next token is that word; takes it if so.
    fn takes_word(&mut self, word: &str) -> bool {
        let is_word = |token: &Token| matches!(token, Token::Name(own) if own.eq_ignore_ascii_case(word));
        self.tokens.next_if(|(_, token)| is_word(token)).is_some()
    }

    fn name(&mut self) -> Option<String> {
        match self.tokens.next_if(|(_, token)| matches!(token, Token::Name(_)))? {
            (_, Token::Name(name)) => Some(name),
            _ => None,
        }
    }

    /// Operators that bind at least so tightly, and what is between them.
    fn binary(&mut self, least: u8) -> Result<Expression, Error> {
        let mut left = self.unary()?;
        while let Some((operator, binds)) = self.operator(least)? {
            let is_bool = operator.is_comparison() && self.takes_word("bool");
            for word in ["on", "ignoring", "group_left", "group_right"] {
                if self.takes_word(word) {
                    return Err(Error::Unsupported { what: format!("matching with {word}") });
                }
            }
            let right = self.binary(binds + 1)?;
            left = Expression::Binary { operator, left: Box::new(left), right: Box::new(right), is_bool };
        }
        Ok(left)
    }

    fn operator(&mut self, least: u8) -> Result<Option<(Operator, u8)>, Error> {
        let sign = match self.tokens.peek() {
            Some((_, Token::Sign(sign))) => *sign,
            Some((_, Token::Name(word))) if matches!(word.as_str(), "and" | "or" | "unless" | "atan2") => {
                return Err(Error::Unsupported { what: format!("the operator {word}") });
            }
            _ => return Ok(None),
        };
        if matches!(sign, "%" | "^" | "@") {
            return Err(Error::Unsupported { what: format!("the operator {sign}") });
        }
        let found = Operator::of_sign(sign).filter(|(_, binds)| *binds >= least);
        if found.is_some() {
            self.tokens.next();
        }
        Ok(found)
    }

    fn unary(&mut self) -> Result<Expression, Error> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.wrong(&format!("nested deeper than {DEPTH_MAX}"));
        }
        let value = if self.takes("-") {
            Expression::Negative(Box::new(self.unary()?))
        } else if self.takes("+") {
            self.unary()?
        } else {
            self.primary()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn primary(&mut self) -> Result<Expression, Error> {
        if self.takes("(") {
            let inner = self.binary(1)?;
            self.needs(")")?;
            return Ok(inner);
        }
        if let Some((_, Token::Number(number))) =
            self.tokens.next_if(|(_, token)| matches!(token, Token::Number(_)))
        {
            return Ok(Expression::Number(number));
        }
        let Some(name) = self.name() else {
            if matches!(self.tokens.peek(), Some((_, Token::Sign("{")))) {
                return self.counter(None);
            }
            return self.wrong("there must be a number, a counter or a function here");
        };
        let follows = |sign: &str, parser: &mut Self| matches!(parser.tokens.peek(), Some((_, Token::Sign(own))) if *own == sign);
        match name.as_str() {
            "sum" | "avg" | "min" | "max" | "count" | "topk" | "bottomk" => self.aggregate(&name),
            "rate" | "irate" | "increase" => self.window(&name),
            "Inf" | "inf" => Ok(Expression::Number(f64::INFINITY)),
            "NaN" | "nan" => Ok(Expression::Number(f64::NAN)),
            _ if follows("(", self) => Err(Error::Unsupported { what: format!("the function {name}") }),
            _ => self.counter(Some(name)),
        }
    }

    fn counter(&mut self, name: Option<String>) -> Result<Expression, Error> {
        let mut selector = self.selector(name)?;
        if self.takes("[") {
            return Err(Error::Unsupported {
                what: "a window without rate or increase around it".to_owned(),
            });
        }
        selector.offset_ms = self.offset()?;
        Ok(Expression::Counter(selector))
    }

    fn window(&mut self, name: &str) -> Result<Expression, Error> {
        self.needs("(")?;
        let counter = self.name();
        let mut selector = self.selector(counter)?;
        self.needs("[")?;
        let length_ms = self.duration()?;
        if self.takes(":") {
            return Err(Error::Unsupported { what: "a subquery".to_owned() });
        }
        self.needs("]")?;
        selector.offset_ms = self.offset()?;
        self.needs(")")?;
        let function = if name == "increase" { Function::Increase } else { Function::Rate };
        Ok(Expression::Window { function, selector, length_ms })
    }

    fn offset(&mut self) -> Result<u64, Error> {
        if self.takes_word("offset") { self.duration() } else { Ok(0) }
    }

    fn duration(&mut self) -> Result<u64, Error> {
        match self.tokens.next_if(|(_, token)| matches!(token, Token::Duration(_))) {
            Some((_, Token::Duration(0))) => self.wrong("a duration must be longer than nothing"),
            Some((_, Token::Duration(ms))) => Ok(ms),
            _ => self.wrong("there must be a duration such as 5m here"),
        }
    }

    fn selector(&mut self, name: Option<String>) -> Result<Selector, Error> {
        let at = self.at();
        let mut matchers = Vec::new();
        if let Some(name) = &name {
            matchers.push(Matcher::new("__name__", "=", name, at)?);
        }
        if self.takes("{") {
            while !self.takes("}") {
                matchers.push(self.matcher()?);
                if !self.takes(",") {
                    self.needs("}")?;
                    break;
                }
            }
        } else if name.is_none() {
            return self.wrong("there must be a counter or { here");
        }
        Ok(Selector { matchers, offset_ms: 0 })
    }

    fn matcher(&mut self) -> Result<Matcher, Error> {
        let Some(label) = self.name() else { return self.wrong("there must be a label here") };
        let sign = ["=", "!=", "=~", "!~"].into_iter().find(|sign| self.takes(sign));
        let Some(sign) = sign else { return self.wrong("there must be =, !=, =~ or !~ here") };
        let at = self.at();
        match self.tokens.next_if(|(_, token)| matches!(token, Token::Text(_))) {
            Some((_, Token::Text(text))) => Matcher::new(&label, sign, &text, at),
            _ => self.wrong("there must be a text in quotes here"),
        }
    }

    fn aggregate(&mut self, name: &str) -> Result<Expression, Error> {
        let before = self.grouping()?;
        self.needs("(")?;
        let aggregate = match name {
            "sum" => Aggregate::Sum,
            "avg" => Aggregate::Average,
            "min" => Aggregate::Min,
            "max" => Aggregate::Max,
            "count" => Aggregate::Count,
            "topk" => Aggregate::Top(self.rows()?),
            _ => Aggregate::Bottom(self.rows()?),
        };
        let over = Box::new(self.binary(1)?);
        self.needs(")")?;
        let after = if before.is_none() { self.grouping()? } else { None };
        let grouping = before.or(after).unwrap_or(Grouping::By(Vec::new()));
        Ok(Expression::Aggregate { aggregate, over, grouping })
    }

    /// How many, and the comma behind it.
    fn rows(&mut self) -> Result<usize, Error> {
        let found = self.tokens.next_if(|(_, token)| matches!(token, Token::Number(_)));
        let Some((_, Token::Number(number))) = found else {
            return self.wrong("there must be a number of rows here");
        };
        if !(1.0..=TOP_MAX).contains(&number) {
            return self.wrong("the number of rows must be from 1 to 10000");
        }
        self.needs(",")?;
        // In text, because no conversion cuts a fraction without saying so.
        Ok(format!("{}", number.trunc()).parse().unwrap_or(1))
    }

    fn grouping(&mut self) -> Result<Option<Grouping>, Error> {
        let is_by = self.takes_word("by");
        if !is_by && !self.takes_word("without") {
            return Ok(None);
        }
        self.needs("(")?;
        let mut labels = Vec::new();
        while let Some(label) = self.name() {
            labels.push(label);
            if !self.takes(",") {
                break;
            }
        }
        self.needs(")")?;
        Ok(Some(if is_by { Grouping::By(labels) } else { Grouping::Without(labels) }))
    }
}

#[cfg(test)]
mod tests;
