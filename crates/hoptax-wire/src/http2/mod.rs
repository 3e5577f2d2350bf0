//! HTTP/2 (RFC 9113) with HPACK (RFC 7541): both sides of a connection, and header blocks that are encoded
//! once.
//!
//! [`Connection`] decodes the bytes of the peer into events, and appends the bytes for the peer to a vector:
//!
//! ```text
//!   client:  request ─► (Interim) ─► Head ─► Body … Body ─► (Trailers)
//!   server:  Head ─► Body … Body ─► (Trailers)            and send_head, send_data
//! ```
//!
//! Instead of any of these events, [`Step::Reset`] or [`Step::Failed`] can occur. The last event of a stream
//! is [`Step::Trailers`], or has `end: true`. Events of different streams are mixed. There are no events for
//! a stream after [`Connection::reset`] has closed it.
//!
//! As in [`http1`](crate::http1), [`Step::NeedMore`] means that the caller keeps the bytes that were not
//! consumed, appends the next bytes and calls again. At most one frame is kept: 16,393 bytes. The way in
//! which the input is split does not affect the events, except that a body can have more parts.
//!
//! Priorities are ignored. Server push is refused.

mod connection;
mod credit;
mod encode;
mod fault;
mod field_list;
mod frame;
pub mod hpack;
mod message;
mod section;
mod settings;
mod streams;

pub use connection::{Connection, Step, StreamRef};
pub use encode::{BadField, RequestParts, request_fields, response_fields};
pub use fault::{Code, Fault};
pub use field_list::FieldList;
pub use frame::PREFACE;
pub use hpack::{Block, OutField};
pub use section::{Section, Sections};
pub use settings::{Config, Release, Role, Settings};
