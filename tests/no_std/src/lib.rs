//! Shows that the verifier needs no std. To check: `cargo build` in this folder.
//!
//! What is built without std must bring its own panic handler and allocator. If any crate in the verifier's
//! graph linked std, std's panic handler would stand beside this one, and the build would fail with "found
//! duplicate lang item `panic_impl`". A static library, since a program would need the C library's start.
#![no_std]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;
use core::ptr::null_mut;

use countersign_verifier::hash::leaf_hash;
use countersign_verifier::note::Note;
use countersign_verifier::policy::Policy;
use countersign_verifier::proof::TlogProof;

struct Nothing;

// SAFETY: every allocation fails, which callers must expect; nothing is ever handed out.
unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Nothing = Nothing;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Enough of the crate that its dependencies are linked, signatures included.
#[unsafe(no_mangle)]
pub extern "C" fn probe() -> i32 {
    let proof = TlogProof::parse(b"").ok();
    let policy = Policy::parse(b"").ok();
    let proven = policy
        .zip(proof)
        .is_some_and(|(policy, proof)| proof.verify(&leaf_hash(b""), &policy).is_ok());
    i32::from(proven || Note::parse(b"").is_ok())
}
