//! Calls that come as messages: made from what lies there, and nothing else.

use super::*;
use hanare_core::marshal::{Encoded, Piece, complete, encode};
use hanare_core::usermemory::{CallerMemory, Fault, UserMemory};

/// Where a program's memory is that the proxy does not see.
const MEMORY: u64 = 0x7000_0000;
const SIZE: usize = 0x4000;

/// Memory of that program.
struct Memory(Vec<u8>);

impl Memory {
    fn part(&self, addr: u64, count: usize) -> Option<std::ops::Range<usize>> {
        let at = usize::try_from(addr.checked_sub(MEMORY)?).ok()?;
        (at + count <= self.0.len()).then_some(at..at + count)
    }
}

impl UserMemory for Memory {
    fn read(&self, addr: u64, to: &mut [u8]) -> Result<(), Fault> {
        to.copy_from_slice(&self.0[self.part(addr, to.len()).ok_or(Fault)?]);
        Ok(())
    }

    fn read_string<'a>(&self, _: u64, _: &'a mut [u8]) -> Result<Option<&'a [u8]>, Fault> {
        Err(Fault)
    }
}

impl CallerMemory for Memory {
    fn writable(&self, addr: u64, bytes: u64) -> u64 {
        bytes.min((MEMORY + self.0.len() as u64).saturating_sub(addr))
    }

    fn write(&mut self, addr: u64, from: &[u8]) -> Result<(), Fault> {
        let part = self.part(addr, from.len()).ok_or(Fault)?;
        self.0[part].copy_from_slice(from);
        Ok(())
    }
}

fn post(lwk: &mut Lwk, bytes: &[u8]) -> i64 {
    lwk.poke(message(0), bytes);
    lwk.call(NR_MESSAGE.into(), &[message(0), bytes.len() as u64])
}

/// Makes a call as the LWK does.
fn make(lwk: &mut Lwk, memory: &mut Memory, number: i64, args: [u64; 6]) -> i64 {
    let (mut buffer, mut pieces) = (vec![0; SIZE], [Piece::NONE; 16]);
    let encoded = encode(memory, number as u32, &args, &mut buffer[..], &mut pieces);
    let Encoded { pieces: count, .. } = encoded.expect("it can be sent");
    assert_eq!(post(lwk, &buffer), 0);
    let answered = lwk.look(message(0), SIZE);
    complete(&answered[..], &pieces[..count], memory)
}

#[test]
fn a_message_is_a_call() {
    let mut lwk = start(&["true"]);
    let mut memory = Memory(vec![0; SIZE]);
    assert_eq!(lwk.op(Control::MapPart { number: MESSAGES_PART }), 0);
    assert_eq!(lwk.op(Control::MapPart { number: MESSAGES_PART }), 0, "once more");
    memory.0[..15].copy_from_slice(b"/proc/self/cwd\0");
    let args = [MEMORY, MEMORY + 0x100, 0x200, 0, 0, 0];
    let length = make(&mut lwk, &mut memory, libc::SYS_readlink, args);
    let cwd = std::env::current_dir().unwrap();
    assert_eq!(&memory.0[0x100..0x100 + length as usize], cwd.to_str().unwrap().as_bytes());

    // A list, whose addresses are the proxy's.
    for (at, word) in [MEMORY, 6, MEMORY + SIZE as u64 - 8, 8].iter().enumerate() {
        memory.0[0x400 + 8 * at..0x408 + 8 * at].copy_from_slice(&word.to_ne_bytes());
    }
    memory.0[SIZE - 8..].copy_from_slice(b"the end\n");
    let args = [2, MEMORY + 0x400, 2, 0, 0, 0];
    assert_eq!(make(&mut lwk, &mut memory, libc::SYS_writev, args), 14);
    assert_eq!(make(&mut lwk, &mut memory, libc::SYS_write, [2, 0x10, 5, 0, 0, 0]), -14);

    lwk.post(libc::SYS_exit_group as u32, &[0]);
    assert_eq!(end(lwk), (0, "/proc/the end\n".into()));
}

#[test]
fn what_is_no_message_is_not_executed() {
    const REFUSED: [i64; 2] = [-(libc::EBADMSG as i64), -(libc::ENOSYS as i64)];
    let mut lwk = start(&["true"]);
    let place = [message(0), SIZE as u64];
    assert_eq!(lwk.call(NR_MESSAGE.into(), &place), REFUSED[1], "nothing is mapped");
    assert_eq!(lwk.op(Control::MapPart { number: MESSAGES_PART }), 0);
    let mut good = vec![0; SIZE];
    let text = Memory(b"/nowhere\0".to_vec());
    let args = [MEMORY, 0, 0, 0, 0, 0];
    encode(&text, libc::SYS_access as u32, &args, &mut good[..], &mut []).unwrap();
    for (address, bytes) in [
        (message(1), SIZE as u64),
        (message(0) + 16, SIZE as u64),
        (0, SIZE as u64),
        (DATA, SIZE as u64),
        (message(0), MESSAGE_MAX + 1),
        (message(0), u64::MAX),
        (message(0), 8),
        (message(0), 0),
    ] {
        lwk.poke(message(0), &good);
        let answer = lwk.call(NR_MESSAGE.into(), &[address, bytes]);
        assert!(REFUSED.contains(&answer), "{address:#x}, {bytes}: {answer}");
    }
    // Words of the head: magic, number, size, what is there in part only, the path; each of them
    // wrong in some way.
    for at in [0, 4, 8, 12, 16, 20] {
        // Call 71 there is.
        for wrong in
            [0xffff_fff0u32, 0x8000_0000, 71].into_iter().filter(|&word| at != 4 || word != 71)
        {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&wrong.to_ne_bytes());
            assert_eq!(post(&mut lwk, &bad), REFUSED[0], "{wrong:#x} at {at}");
        }
    }
    assert_eq!(post(&mut lwk, &good), 0, "it was good");
    assert_eq!(post(&mut lwk, &[0xa5; SIZE]), REFUSED[0]);
    lwk.post(libc::SYS_exit_group as u32, &[3]);
    assert_eq!(end(lwk).0, 3);
}
