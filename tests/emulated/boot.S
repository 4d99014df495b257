/* Boot sector: loads the program, enters long mode with AVX-512 enabled, calls it. */
.code16
.globl start
start:
    cli
    xor %ax, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    mov $0x7c00, %sp
    mov %dl, drive
    mov $0x1000, %bx            /* The program goes to 0x10000. */
    mov $1, %ebp
next:
    mov %bx, segment
    mov %ebp, block
    mov $packet, %si
    mov $0x42, %ah
    mov drive, %dl
    int $0x13
    jc failed
    add $0x0200, %bx            /* 16 sectors are 0x200 paragraphs. */
    add $16, %ebp
    cmp $(1 + SECTORS), %ebp
    jb next
    in $0x92, %al               /* Address line 20. */
    or $2, %al
    out %al, $0x92
    lgdt table_register
    mov %cr0, %eax
    or $1, %al
    mov %eax, %cr0
    ljmp $8, $protected
failed:
    mov $'F', %al
    out %al, $0xe9
    hlt
.align 4
packet: .byte 16, 0
    .word 16, 0
segment: .word 0
block: .long 0, 0
drive: .byte 0
.align 8
table: .quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff, 0x00af9a000000ffff
table_register: .word . - table - 1
    .long table
.code32
protected:
    mov $16, %ax
    mov %ax, %ds
    mov %ax, %es
    mov %ax, %ss
    mov $0x1000, %edi           /* Pages of 2 MiB for the first GiB, each where it lies. */
    xor %eax, %eax
    mov $0xc00, %ecx
    rep stosl
    movl $0x2003, 0x1000
    movl $0x3003, 0x2000
    mov $0x3000, %edi
    mov $0x83, %eax
    mov $512, %ecx
1:  mov %eax, (%edi)
    add $0x200000, %eax
    add $8, %edi
    loop 1b
    mov $0x1000, %eax
    mov %eax, %cr3
    mov $0x40620, %eax          /* PAE, SSE and its exceptions, XSAVE. */
    mov %eax, %cr4
    mov $0xc0000080, %ecx
    rdmsr
    or $0x100, %eax             /* Long mode. */
    wrmsr
    mov %cr0, %eax
    and $~4, %eax
    or $0x80000002, %eax
    mov %eax, %cr0
    ljmp $24, $long_mode
.code64
long_mode:
    xor %ecx, %ecx
    xor %edx, %edx
    mov $0xe7, %eax             /* x87, SSE, AVX, AVX-512. */
    xsetbv
    mov $0x90000, %rsp
    mov $0x10000, %rax
    call *%rax
.org 510
    .word 0xaa55
