/* Multiboot entry: 32-bit protected mode to long mode with 1 GiB identity-mapped, SSE, AVX and AVX-512 switched on. */
.section .multiboot, "a"
.align 4
.long 0x1BADB002, 0x00000000, -(0x1BADB002 + 0x00000000)
.code32
.section .text.start, "ax"
.globl _start
_start:
    cli
    mov $stack_top, %esp
    mov $pd, %edi
    mov $0x83, %eax
    mov $512, %ecx
1:  mov %eax, (%edi)
    movl $0, 4(%edi)
    add $0x200000, %eax
    add $8, %edi
    loop 1b
    movl $pdpt + 3, pml4
    movl $pd + 3, pdpt
    mov $pml4, %eax
    mov %eax, %cr3
    mov %cr4, %eax
    or $0x40620, %eax            /* PAE, OSFXSR, OSXMMEXCPT, OSXSAVE */
    mov %eax, %cr4
    mov $0xC0000080, %ecx
    rdmsr
    or $0x100, %eax
    wrmsr
    mov %cr0, %eax
    and $0xFFFFFFF3, %eax        /* no EM, no TS */
    or $0x80000002, %eax         /* paging, MP */
    mov %eax, %cr0
    lgdt gdt_pointer
    ljmp $8, $long_mode
.code64
long_mode:
    mov $0x10, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    xor %ecx, %ecx
    mov $0xE7, %eax              /* x87, SSE, AVX, opmask, ZMM */
    xor %edx, %edx
    xsetbv
    movabs $stack_top, %rsp
    call test_main
2:  hlt
    jmp 2b
.section .data
.align 8
gdt: .quad 0, 0x00AF9A000000FFFF, 0x00CF92000000FFFF
gdt_pointer: .word 23
    .long gdt
.section .bss
.align 4096
pml4: .skip 4096
pdpt: .skip 4096
pd: .skip 4096
.align 64
stack: .skip 1048576
stack_top:
.section .note.GNU-stack, "", @progbits
