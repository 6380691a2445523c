	.file	"sample"
	.section	.text.take,"ax",@progbits
	.globl	take
	.p2align	2
	.type	take,@function
take:
	.cfi_startproc
.LBB0_1:                                // again
	ldr	x8, [x0]
	tbnz	w8, #0, .LBB0_3
	add	x9, x8, #16
	mov	x10, x8
	casa	x10, x9, [x0]
	cmp	x10, x8
	b.ne	.LBB0_1
	dmb	ishld
	mov	w9, #-16                // =0xfffffff0
	ldaddl	x9, x8, [x0]
	ret
.LBB0_3:
	b	slow
.Lfunc_end0:
	.size	take, .Lfunc_end0-take
	.cfi_endproc

	.globl	begin
	.type	begin,@function
begin:
	ldapr	x0, [x0]
	cbz	x0, .LBB1_2
	b	tail
.LBB1_2:
	str	x30, [sp, #-16]!
	bl	slow
	ldr	x30, [sp], #16
	ret
.Lfunc_end1:
	.size	begin, .Lfunc_end1-begin

	.type	tail,@function
tail:
	ret
.Lfunc_end2:
	.size	tail, .Lfunc_end2-tail
