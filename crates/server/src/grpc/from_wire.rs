//! Envoy's request → [`Request`].
//!
//! The bytes or the JSON of a call come before it, the limiter after it. With
//! `to_wire` it is the only place that knows Envoy's messages.
//!
//! Invariants: what is handed on is within [`crate::bounds`]; a request of
//! usual size without limits of its own is converted without an allocation.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use smallvec::SmallVec;
use tollgate_core::{Descriptor, Entry, Limit, Operation, Override, Request, Shape, Unit};

use super::error::{BadRequest, GrpcError};
use super::message_wire;
use crate::bounds::{DESCRIPTORS_MAX, ENTRIES_MAX, KEY_MAX, VALUE_MAX};

/// Most requests have no more descriptors than this; more cost an allocation.
const DESCRIPTORS_USUAL: usize = 4;
/// Most requests have no more entries than this in all.
const ENTRIES_USUAL: usize = 12;

/// Envoy's request, within bounds. The limiter's request borrows from it in
/// steps that the caller keeps: [`RlsRequest::entries`],
/// [`RlsRequest::descriptors`], [`RlsRequest::request`].
#[derive(Debug)]
pub(crate) struct RlsRequest {
    pub(super) wire: RateLimitRequest,
    /// The limits that descriptors bring along.
    overrides: Overrides,
}

type Overrides = SmallVec<[Option<Box<Override>>; DESCRIPTORS_USUAL]>;

/// The entries of all descriptors, one after the other.
pub(crate) type RlsEntries<'a> = SmallVec<[Entry<'a>; ENTRIES_USUAL]>;

/// The descriptors of a request.
pub(crate) type RlsDescriptors<'a> = SmallVec<[Descriptor<'a>; DESCRIPTORS_USUAL]>;

impl RlsRequest {
    /// The request in the body of a call.
    pub(super) fn decode(body: &[u8], count_rejected: bool) -> Result<Self, GrpcError> {
        Ok(Self::new(message_wire::decode(body)?, count_rejected)?)
    }

    /// Checks the bounds of `wire`. Limits that it brings along count what they
    /// reject if `count_rejected`, as Envoy's do.
    pub(crate) fn new(wire: RateLimitRequest, count_rejected: bool) -> Result<Self, BadRequest> {
        check_bounds(&wire)?;
        let mut overrides = Overrides::new();
        for (index, descriptor) in wire.descriptors.iter().enumerate() {
            let limit = descriptor.limit.as_ref().map(|limit| override_of(limit, index, count_rejected));
            overrides.push(limit.transpose()?.map(Box::new));
        }
        Ok(Self { wire, overrides })
    }

    /// A peek changes nothing, so that no descriptor of it may give back.
    pub(super) fn refuse_refunds(&self) -> Result<(), BadRequest> {
        match self.wire.descriptors.iter().position(|descriptor| descriptor.is_negative_hits) {
            Some(descriptor) => Err(BadRequest::PeekedRefund { descriptor }),
            None => Ok(()),
        }
    }

    pub(crate) fn entries(&self) -> RlsEntries<'_> {
        let entries = self.wire.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
        entries.map(|entry| Entry { key: &entry.key, value: &entry.value }).collect()
    }

    pub(crate) fn descriptors<'b>(&'b self, entries: &'b [Entry<'b>]) -> RlsDescriptors<'b> {
        let mut rest = entries;
        let descriptor = |(wire, limit): (&RateLimitDescriptor, &'b Option<Box<Override>>)| {
            let (own, others) = rest.split_at_checked(wire.entries.len()).unwrap_or((rest, &[]));
            rest = others;
            Descriptor {
                entries: own,
                limit: limit.as_deref(),
                cost: wire.hits_addend.as_ref().map(|hits| hits.value),
                operation: wire.is_negative_hits.then_some(Operation::Refund),
            }
        };
        self.wire.descriptors.iter().zip(&self.overrides).map(descriptor).collect()
    }

    pub(crate) fn request<'b>(&'b self, descriptors: &'b [Descriptor<'b>]) -> Request<'b> {
        // No number means one hit; only a descriptor can ask for none.
        let cost = u64::from(self.wire.hits_addend.max(1));
        Request::new(&self.wire.domain, descriptors).with_cost(cost)
    }
}

fn check_bounds(wire: &RateLimitRequest) -> Result<(), BadRequest> {
    if wire.domain.len() > KEY_MAX {
        return Err(BadRequest::Domain { bytes: wire.domain.len() });
    }
    if wire.descriptors.len() > DESCRIPTORS_MAX {
        return Err(BadRequest::Descriptors { found: wire.descriptors.len() });
    }
    wire.descriptors.iter().enumerate().try_for_each(|(index, descriptor)| check_entries(index, descriptor))
}

fn check_entries(descriptor: usize, wire: &RateLimitDescriptor) -> Result<(), BadRequest> {
    if wire.entries.len() > ENTRIES_MAX {
        return Err(BadRequest::Entries { descriptor, found: wire.entries.len() });
    }
    for (entry, sent) in wire.entries.iter().enumerate() {
        if sent.key.len() > KEY_MAX {
            return Err(BadRequest::Key { descriptor, entry, bytes: sent.key.len() });
        }
        if sent.value.len() > VALUE_MAX {
            return Err(BadRequest::Value { descriptor, entry, bytes: sent.value.len() });
        }
    }
    Ok(())
}

fn override_of(
    limit: &RateLimitOverride,
    descriptor: usize,
    count_rejected: bool,
) -> Result<Override, BadRequest> {
    let unit = unit_of(limit.unit).ok_or(BadRequest::Unit { descriptor, unit: limit.unit })?;
    let limit = Limit::new(limit.requests_per_unit, unit.length(), Shape::FixedWindow)
        .map_err(|source| BadRequest::Limit { descriptor, source })?
        .counting_rejected(count_rejected);
    Ok(Override { limit, unit })
}

/// The unit of that number. Envoy's type for overrides has no week, but its
/// type for limits has, as 7, and the reference passes the number on.
const fn unit_of(number: i32) -> Option<Unit> {
    Some(match number {
        1 => Unit::Second,
        2 => Unit::Minute,
        3 => Unit::Hour,
        4 => Unit::Day,
        5 => Unit::Month,
        6 => Unit::Year,
        7 => Unit::Week,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
