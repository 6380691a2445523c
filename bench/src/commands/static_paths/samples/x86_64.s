	.file	"sample"
	.section	.text.take,"ax",@progbits
	.globl	take
	.p2align	4
	.type	take,@function
take:
	.cfi_startproc
.LBB0_1:                                # again
	movq	(%rdi), %rax
	testb	$1, %al
	jne	.LBB0_3
	leaq	16(%rax), %rcx
	lock		cmpxchgq	%rcx, (%rdi)
	jne	.LBB0_1
	retq
.LBB0_3:
	pushq	%rax
	.cfi_def_cfa_offset 16
	callq	*slow@GOTPCREL(%rip)
	popq	%rcx
	retq
.Lfunc_end0:
	.size	take, .Lfunc_end0-take
	.cfi_endproc

	.section	.text.unlikely.chosen,"ax",@progbits
	.type	chosen,@function
chosen:
	testl	%eax, %eax
	je	.LBB1_2
	xorl	%eax, %eax
	retq
.LBB1_2:
	xorl	%edx, %edx
	divq	%rcx
	movl	%edx, %eax
	retq
.Lfunc_end1:
	.size	chosen, .Lfunc_end1-chosen

	.globl	calls
	.type	calls,@function
calls:
	pushq	%rbx
	callq	chosen
	popq	%rbx
	retq
.Lfunc_end2:
	.size	calls, .Lfunc_end2-calls

	.globl	fails
	.type	fails,@function
fails:
	pushq	%rax
	callq	*abort@GOTPCREL(%rip)
	ud2
.Lfunc_end3:
	.size	fails, .Lfunc_end3-fails

	.globl	also_calls
	.type	also_calls,@function
.set also_calls, calls
	.section	.debug_str,"MS",@progbits,1
.Linfo_string0:
	.asciz	"retq"
