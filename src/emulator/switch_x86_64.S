/* void tessera_fiber_switch(void** save, void* load): saves the callee-saved registers and swaps
   the stacks (System V ABI, section 3.2.1). */
.text
.globl tessera_fiber_switch
.hidden tessera_fiber_switch
.type tessera_fiber_switch, @function
tessera_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tessera_fiber_switch, .-tessera_fiber_switch
.section .note.GNU-stack, "", @progbits
