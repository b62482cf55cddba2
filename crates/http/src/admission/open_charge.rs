//! A charge that the answer decides, and what it comes to.
//!
//! A pending request has one for each descriptor that the answer has a say in; the meter shows it the
//! answer.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use smallvec::SmallVec;
use tollgate_core::Operation;

use super::cost_reader::CostReader;
use super::json_field;
use crate::request::charge_terms::{ActiveTerms, ChargeTerms, ResponseCost};

/// Most requests have no more descriptors than this.
const DESCRIPTORS_USUAL: usize = 4;

/// A charge or a refund that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DueCharge {
    /// Of which descriptor.
    pub(super) descriptor: usize,
    pub(super) operation: Operation,
    pub(super) cost: u64,
}

/// What is due at once.
pub(super) type DueCharges = SmallVec<[DueCharge; DESCRIPTORS_USUAL]>;

/// A charge whose cost is not known yet.
#[derive(Debug)]
pub(super) struct OpenCharge {
    descriptor: usize,
    terms: Arc<ActiveTerms>,
    /// The number in a header or a trailer.
    header: Option<u64>,
    reader: Option<CostReader>,
}

impl OpenCharge {
    pub(super) const fn new(descriptor: usize, terms: Arc<ActiveTerms>) -> Self {
        Self { descriptor, terms, header: None, reader: None }
    }

    /// Reads a piece of the body.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        if let Some(reader) = &mut self.reader
            && let ChargeTerms::OnResponse { cost: ResponseCost::Json { field, .. }, .. } = &self.terms.terms
        {
            reader.read(bytes, field);
        }
    }

    /// What is due at this status; none if that is nothing.
    pub(super) fn due(&self, status: u16) -> Option<DueCharge> {
        let (operation, cost) = match &self.terms.terms {
            ChargeTerms::AtOnce => return None,
            ChargeTerms::RefundOn(set) => (Operation::Refund, u64::from(set.has(status))),
            ChargeTerms::OnResponse { status: Some(set), .. } if !set.has(status) => return None,
            ChargeTerms::OnResponse { cost, .. } => (Operation::Report, self.cost(cost)),
        };
        Some(DueCharge { descriptor: self.descriptor, operation, cost })
    }

    fn cost(&self, cost: &ResponseCost) -> u64 {
        match cost {
            ResponseCost::One => 1,
            ResponseCost::Header { default, .. } => self.header.unwrap_or(*default),
            ResponseCost::Json { default, .. } => {
                self.reader.as_ref().and_then(CostReader::found).unwrap_or(*default)
            }
        }
    }

    /// Looks for a number in a head or in trailers.
    pub(super) fn look(&mut self, headers: &HeaderMap) {
        if let ChargeTerms::OnResponse { cost: ResponseCost::Header { name, .. }, .. } = &self.terms.terms {
            let cost = |value: &HeaderValue| json_field::number(value.to_str().ok()?.trim());
            self.header = headers.get(name).and_then(cost).or(self.header);
        }
    }

    /// Whether the rest of the answer can still change what is due.
    pub(super) fn needs_more(&self) -> bool {
        match &self.terms.terms {
            ChargeTerms::OnResponse { cost: ResponseCost::Header { .. }, .. } => self.header.is_none(),
            ChargeTerms::OnResponse { cost: ResponseCost::Json { .. }, .. } => self.reader.is_some(),
            ChargeTerms::OnResponse { cost: ResponseCost::One, .. }
            | ChargeTerms::RefundOn(_)
            | ChargeTerms::AtOnce => false,
        }
    }

    /// Makes ready to read the body, if there is anything to read.
    pub(super) fn begin(&mut self, headers: &HeaderMap) {
        if let ChargeTerms::OnResponse { cost: ResponseCost::Json { field, default }, .. } = &self.terms.terms
        {
            match CostReader::new(headers) {
                Ok(reader) => self.reader = Some(reader),
                Err(reason) => self.terms.warn(field, *default, reason),
            }
        }
    }
}

/// The whole number that a field is.
pub(super) fn number(value: &HeaderValue) -> Option<u64> {
    value.to_str().ok()?.trim().parse().ok()
}
