//! The frame of a signal handler: where it is put, and what `rt_sigreturn` takes of it.

use hanare_core::errno;
use hanare_core::limits::MIN_SIGNAL_STACK;
use hanare_core::signal::{
    AltStack, FP_XSTATE_MAGIC2, FXSAVE_SIZE, FpSwBytes, FpuFormat, RED_ZONE, RtSigFrame,
    SS_AUTODISARM, SS_DISABLE, SS_ONSTACK, SW_BYTES_OFFSET, float_code, fpu_format, place_frame,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::input::Input;
use crate::memory::Memory;
use crate::target::Target;

pub const TARGET: Target = Target { name: "frame", check, size_max: 2048, seeds };

/// Bytes of an FPU state with SSE, with AVX, with AVX-512 as well.
const SIZES: [usize; 3] = [576, 832, 2696];

/// States as this machine's Linux puts them on the stack.
fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (at, size) in SIZES.iter().enumerate() {
        let mut state = vec![0; *size];
        state[..2].copy_from_slice(&0x37fu16.to_le_bytes());
        state[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
        let sw = FpSwBytes::new(7, *size as u32);
        state[SW_BYTES_OFFSET..SW_BYTES_OFFSET + 48].copy_from_slice(sw.as_bytes());
        state[FXSAVE_SIZE] = 7;
        state.extend_from_slice(&FP_XSTATE_MAGIC2.to_le_bytes());
        let mut seed = vec![at as u8 | 4];
        for word in [0x1_0800u64, 0x1_0000, 0, 0x4000, 0x2_0000, 0x4000] {
            seed.extend_from_slice(&word.to_le_bytes());
        }
        seed.extend_from_slice(&0u64.to_le_bytes());
        seed.extend_from_slice(&state);
        all.push(seed);
    }
    all
}

fn check(input: &[u8]) {
    let mut input = Input::new(input);
    let flags = input.byte();
    let size = SIZES[usize::from(flags & 3) % SIZES.len()];
    let sp = input.u64();
    let stack = |input: &mut Input| AltStack {
        sp: input.u64(),
        flags: input.u32() as i32,
        reserved: input.u32() as i32,
        size: input.u64(),
    };
    let (alt, wanted) = (stack(&mut input), stack(&mut input));
    alternate(&alt, wanted, sp);
    for on_alt in [false, true] {
        placed(sp, on_alt, &alt, size as u64);
    }
    let bytes = input.rest();
    whole(bytes);
    if let Some(code) = float_code(bytes, flags & 8 != 0) {
        assert!((1..=7).contains(&code));
    }
    let memory = Memory::new(bytes, flags & 16 != 0);
    let at = (u64::from(flags) >> 5) * 0x8000 + (sp & 0xfff);
    restored(&memory, at, flags & 4 != 0, size);
}

fn whole(bytes: &[u8]) {
    let Ok((frame, _)) = RtSigFrame::read_from_prefix(bytes) else { return };
    assert_eq!(frame.as_bytes(), &bytes[..size_of::<RtSigFrame>()]);
    let mask = frame.context.sigmask.blockable();
    assert_eq!(mask.0 & !frame.context.sigmask.0, 0);
    assert_eq!(mask.0 & (1 << 8 | 1 << 18), 0, "SIGKILL and SIGSTOP cannot be blocked");
}

fn alternate(alt: &AltStack, wanted: AltStack, sp: u64) {
    let mode = wanted.flags & !SS_AUTODISARM;
    match alt.replaced_by(wanted, sp) {
        Ok(new) => {
            assert!(!alt.holds(sp));
            assert_eq!((new.flags, new.reserved), (wanted.flags, 0));
            if mode == SS_DISABLE {
                assert_eq!((new.sp, new.size), (0, 0));
            } else {
                assert!(mode & !SS_ONSTACK == 0 && new.size >= MIN_SIGNAL_STACK);
                assert_eq!((new.sp, new.size), (wanted.sp, wanted.size));
            }
        }
        Err(errno::EPERM) => assert!(alt.holds(sp)),
        Err(errno::ENOMEM) => assert!(wanted.size < MIN_SIGNAL_STACK && mode & !SS_ONSTACK == 0),
        Err(error) => {
            assert!(error == errno::EINVAL && ![0, SS_ONSTACK, SS_DISABLE].contains(&mode))
        }
    }
    let shown = alt.flags_at(sp);
    assert_eq!(shown & !(SS_AUTODISARM | SS_ONSTACK | SS_DISABLE), 0);
    assert_eq!(shown & SS_DISABLE != 0, alt.size == 0);
}

fn placed(sp: u64, on_alt: bool, alt: &AltStack, size: u64) {
    let Some(place) = place_frame(sp, on_alt, alt, size) else { return };
    assert!(place.frame % 16 == 8 && place.fpstate % 64 == 0);
    let frame_end = place.frame + size_of::<RtSigFrame>() as u64;
    assert!(frame_end <= place.fpstate, "{place:?}");
    let end = place.fpstate.checked_add(size + 4).expect("below what it is put below");
    let on = |address: u64| address > alt.sp && address - alt.sp <= alt.size;
    if on_alt && alt.holds(sp) || !on_alt && !alt.holds(sp) {
        assert!(end <= sp - RED_ZONE, "{place:?}");
    }
    if alt.holds(sp) {
        assert!(on(place.frame));
    } else if end > sp.saturating_sub(RED_ZONE) || on_alt && place.frame >= sp {
        assert!(on_alt && on(place.frame) && end <= alt.sp + alt.size, "{place:?}");
    }
}

/// The marks alone say what is loaded: an extended state, of which the kernel has room for as much,
/// or a legacy one.
fn restored(memory: &Memory, at: u64, has_xsave: bool, size: usize) {
    let result = fpu_format(memory, at, has_xsave, size);
    assert!(memory.most() <= size_of::<FpSwBytes>());
    let marks = || -> Option<Vec<u8>> {
        (0..size_of::<FpSwBytes>())
            .map(|i| memory.first(at + (SW_BYTES_OFFSET + i) as u64))
            .collect()
    };
    match result {
        Ok(FpuFormat::Legacy) if !has_xsave => {}
        Ok(FpuFormat::Legacy) => assert!(marks().is_some()),
        Ok(FpuFormat::Extended(features)) => {
            let marks = marks()
                .and_then(|bytes| FpSwBytes::read_from_bytes(&bytes).ok())
                .expect("they were read");
            assert!(has_xsave && marks.xfeatures == features);
            assert!((FXSAVE_SIZE + 64..=size).contains(&(marks.xstate_size as usize)));
        }
        Err(_) => assert!(has_xsave),
    }
}
