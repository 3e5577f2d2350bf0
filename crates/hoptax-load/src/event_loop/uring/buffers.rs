//! The ring of receive buffers that all connections of a loop share. The kernel takes from its head whatever it needs
//! when bytes arrive, so that an idle connection holds no memory for them.
//!
//! Where the kernel can (Linux 6.12), it fills a buffer bit by bit: short responses then lie close together, while a
//! long one still has 64 KiB in a row.

// The memory is written by the kernel, through addresses that are handed to it.
#![allow(unsafe_code)]

use io_uring::types::BufRingEntry;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

/// The only group of buffers of a ring.
pub(super) const GROUP: u16 = 0;
/// `IOU_PBUF_RING_INC` of `linux/io_uring.h`: fill a buffer bit by bit.
const INCREMENTAL: u16 = 2;
/// The kernel wants the ring on a page of its own.
const PAGE: usize = 4096;

/// How many buffers, and of what size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    /// A power of two.
    pub(super) count: u16,
    /// Bytes of each.
    pub(super) bytes: u32,
}

/// The buffers, and the ring by which they are handed to the kernel.
#[derive(Debug)]
pub(super) struct Buffers {
    size: Size,
    ring: NonNull<BufRingEntry>,
    memory: NonNull<u8>,
    /// Buffers ever handed to the kernel, modulo 2^16.
    tail: Cell<u16>,
    state: Box<[Cell<State>]>,
}

/// What is known of one buffer that the kernel has.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Where the kernel writes next.
    filled: u32,
    /// Chunks of it that are not given back.
    held: u32,
    /// The kernel writes no more into it.
    spent: bool,
}

/// Bytes in a buffer that have arrived. The kernel does not touch them until they are given back.
#[derive(Debug)]
pub(super) struct Chunk {
    buffer: u16,
    from: u32,
    length: u32,
}

impl Buffers {
    /// Buffers that no kernel knows yet.
    pub(super) fn new(size: Size) -> Self {
        assert!(size.count.is_power_of_two() && size.bytes > 0);
        Self {
            size,
            ring: allocate(Self::ring_layout(size)).cast(),
            memory: allocate(Self::memory_layout(size)),
            tail: Cell::new(0),
            state: vec![Cell::default(); usize::from(size.count)].into(),
        }
    }

    fn ring_layout(size: Size) -> Layout {
        let bytes = usize::from(size.count) * size_of::<BufRingEntry>();
        Layout::from_size_align(bytes.next_multiple_of(PAGE), PAGE).expect("a few pages")
    }

    fn memory_layout(size: Size) -> Layout {
        Layout::from_size_align(usize::from(size.count) * size.bytes as usize, PAGE).expect("some MiB")
    }

    /// Hands all buffers to the kernel.
    ///
    /// # Errors
    /// If it wants none of them, as before Linux 5.19.
    ///
    /// # Safety
    /// These buffers must outlive the ring that `submitter` belongs to, and be registered once.
    pub(super) unsafe fn register(&self, submitter: &io_uring::Submitter<'_>) -> io::Result<()> {
        let register = |flags| {
            // SAFETY: `ring` is as large as `count` entries, and by this function's contract outlives its registration.
            unsafe {
                let address = self.ring.as_ptr() as u64;
                submitter.register_buf_ring_with_flags(address, self.size.count, GROUP, flags)
            }
        };
        register(INCREMENTAL).or_else(|_| register(0))?;
        for buffer in 0..self.size.count {
            self.hand_over(buffer);
        }
        self.publish();
        Ok(())
    }

    /// Writes `buffer` into the ring; the kernel sees it after [`publish`](Self::publish).
    fn hand_over(&self, buffer: u16) {
        let tail = self.tail.get();
        self.state[usize::from(buffer)].set(State::default());
        let index = usize::from(tail & (self.size.count - 1));
        // SAFETY: both offsets are inside of what `new` allocated. The entry is not in the kernel's hands: at most
        // `count` buffers are, as each is handed over again only after it was spent. The kernel reads and writes the
        // entries that it has, and only while this thread is inside of `io_uring_enter`.
        unsafe {
            let address = self.memory.as_ptr().add(usize::from(buffer) * self.size.bytes as usize);
            let entry = &mut *self.ring.as_ptr().add(index);
            entry.set_addr(address as u64);
            entry.set_len(self.size.bytes);
            entry.set_bid(buffer);
        }
        self.tail.set(tail.wrapping_add(1));
    }

    /// Shows the kernel what was given back.
    pub(super) fn publish(&self) {
        // SAFETY: the tail lies in the first entry's reserved field, inside of what `new` allocated, and nothing but
        // this line writes it.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(self.ring.as_ptr()).cast_mut()) };
        tail.store(self.tail.get(), Ordering::Release);
    }

    /// The next `length` bytes of `buffer`, as a completion told it; `more`: others will follow in the same buffer.
    /// To be called once for each completion, in their order.
    pub(super) fn claim(&self, buffer: u16, length: u32, more: bool) -> Chunk {
        let state = &self.state[usize::from(buffer)];
        let State { filled, held, .. } = state.get();
        assert!(length <= self.size.bytes - filled, "the kernel wrote past a buffer's end");
        state.set(State { filled: filled + length, held: held + 1, spent: !more });
        Chunk { buffer, from: filled, length }
    }

    /// The bytes of `chunk`.
    pub(super) fn bytes<'a>(&'a self, chunk: &'a Chunk) -> &'a [u8] {
        let offset = usize::from(chunk.buffer) * self.size.bytes as usize + chunk.from as usize;
        // SAFETY: `claim` has made sure that it lies inside of its buffer. The memory was zeroed, so it is initialised,
        // and nobody writes there: the kernel has moved on, and gets the buffer back only when no chunk of it is left.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(offset), chunk.length as usize) }
    }

    /// The chunk's bytes are done with.
    pub(super) fn give_back(&self, chunk: Chunk) {
        let state = &self.state[usize::from(chunk.buffer)];
        let State { filled, held, spent } = state.get();
        if held == 1 && spent {
            self.hand_over(chunk.buffer);
        } else {
            state.set(State { filled, held: held - 1, spent });
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with these layouts, and by the contract of `register` no ring is left that knows
        // them.
        unsafe {
            dealloc(self.ring.as_ptr().cast(), Self::ring_layout(self.size));
            dealloc(self.memory.as_ptr(), Self::memory_layout(self.size));
        }
    }
}

fn allocate(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() > 0);
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
}
