//! A text segment, decoded: its system call instructions, gaps between its functions, and where its
//! branches go.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

/// The bytes of `syscall`.
pub const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// How many instructions before a system call are kept.
pub const BEFORE: usize = 3;

/// An instruction beside a system call.
#[derive(Clone, Copy)]
pub struct Neighbour {
    pub start: u64,
    pub end: u64,
    /// The instruction does the same at another address.
    pub is_movable: bool,
    /// Target of an unconditional jump; `None`: another instruction.
    pub jump: Option<u64>,
}

/// A `syscall` instruction.
pub struct Site {
    pub at: u64,
    /// The instructions before the call, the nearest one last.
    pub before: [Option<Neighbour>; BEFORE],
    pub after: Option<Neighbour>,
    /// The function around it has jumps whose targets are computed.
    pub is_among_computed: bool,
}

/// Unreachable filler between functions.
pub struct Gap {
    pub start: u64,
    pub end: u64,
}

/// Findings about a segment.
pub struct Survey {
    pub start: u64,
    pub sites: Vec<Site>,
    pub gaps: Vec<Gap>,
    targets: Vec<u64>,
}

impl Survey {
    /// Whether a branch of the segment goes there.
    pub fn is_target(&self, address: u64) -> bool {
        let at = (address - self.start) as usize;
        self.targets[at / 64] & 1 << (at % 64) != 0
    }

    fn note_target(&mut self, address: u64) {
        let at = address.wrapping_sub(self.start) as usize;
        if let Some(word) = self.targets.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }
}

/// Whether the segment has a system call: where its two bytes stand, the function around them is
/// decoded. Most objects have the bytes only within other instructions.
pub fn has_site(start: u64, bytes: &[u8], functions: &[u64]) -> bool {
    let end = start + bytes.len() as u64;
    bytes.windows(2).enumerate().filter(|(_, pair)| *pair == SYSCALL).any(|(offset, _)| {
        let at = start + offset as u64;
        let next = functions.partition_point(|function| *function <= at);
        let within = |function: &&u64| (start..end).contains(*function);
        let first = functions[..next].last().filter(within).copied().unwrap_or(start);
        let last = functions[next..].first().filter(within).copied().unwrap_or(end);
        let code = &bytes[(first - start) as usize..(last - start) as usize];
        Decoder::with_ip(64, code, first, DecoderOptions::NONE)
            .iter()
            .take_while(|instruction| instruction.ip() <= at)
            .any(|instruction| instruction.ip() == at && instruction.code() == Code::Syscall)
    })
}

/// Decodes a segment; the decoder begins anew where a function does.
pub fn of(start: u64, bytes: &[u8], functions: &[u64]) -> Survey {
    let end = start + bytes.len() as u64;
    let mut survey = Survey {
        start,
        sites: Vec::new(),
        gaps: Vec::new(),
        targets: vec![0; bytes.len() / 64 + 1],
    };
    let mut starts: Vec<_> =
        functions.iter().copied().filter(|function| (start..end).contains(function)).collect();
    starts.insert(0, start);
    starts.push(end);
    starts.dedup();
    for pair in starts.windows(2) {
        survey.note_target(pair[0]);
        function(&mut survey, bytes, pair[0], pair[1]);
    }
    survey
}

fn function(survey: &mut Survey, bytes: &[u8], start: u64, end: u64) {
    let code = &bytes[(start - survey.start) as usize..(end - survey.start) as usize];
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let first = survey.sites.len();
    let mut before = [None; BEFORE];
    let mut wants_after = false;
    let mut is_unreachable = false;
    let mut is_signal_return = false;
    let mut has_computed = false;
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let this = neighbour(&instruction);
        if let (true, Some(site)) = (wants_after, survey.sites.last_mut()) {
            site.after = Some(this);
        }
        wants_after = instruction.code() == Code::Syscall && !is_signal_return;
        if wants_after {
            let site = Site { at: this.start, before, after: None, is_among_computed: false };
            survey.sites.push(site);
        }
        let is_filler = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
        if is_filler && is_unreachable {
            match survey.gaps.last_mut() {
                Some(gap) if gap.end == this.start => gap.end = this.end,
                _ => survey.gaps.push(Gap { start: this.start, end: this.end }),
            }
        } else {
            let flow = instruction.flow_control();
            is_unreachable = matches!(
                flow,
                FlowControl::UnconditionalBranch
                    | FlowControl::IndirectBranch
                    | FlowControl::Return
                    | FlowControl::Exception
            ) || instruction.mnemonic() == Mnemonic::Hlt;
            has_computed |= flow == FlowControl::IndirectBranch;
            if instruction.op0_kind() == OpKind::NearBranch64 {
                survey.note_target(instruction.near_branch_target());
            }
        }
        is_signal_return = is_load_of_signal_return(&instruction);
        before.rotate_left(1);
        before[BEFORE - 1] = Some(this);
    }
    for site in &mut survey.sites[first..] {
        site.is_among_computed = has_computed;
    }
}

fn neighbour(instruction: &Instruction) -> Neighbour {
    let flow = instruction.flow_control();
    let is_movable = flow == FlowControl::Next
        && !instruction.is_ip_rel_memory_operand()
        && instruction.code() != Code::Syscall
        && instruction.code() != Code::INVALID;
    let jump = (flow == FlowControl::UnconditionalBranch
        && instruction.op0_kind() == OpKind::NearBranch64)
        .then(|| instruction.near_branch_target());
    Neighbour { start: instruction.ip(), end: instruction.next_ip(), is_movable, jump }
}

/// Debuggers and unwinders know a signal frame by these two instructions. What the call does is
/// seen by no other code.
fn is_load_of_signal_return(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Mov
        && instruction.op0_kind() == OpKind::Register
        && matches!(instruction.op0_register(), Register::RAX | Register::EAX)
        && matches!(
            instruction.op1_kind(),
            OpKind::Immediate32 | OpKind::Immediate64 | OpKind::Immediate32to64
        )
        && instruction.immediate(1) == libc::SYS_rt_sigreturn as u64
}
