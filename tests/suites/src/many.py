"""Writes a C program of about 10,000 lines that prints a sum known in advance, and its Makefile."""
import sys

folder, functions = sys.argv[1], 1250
parts = 4
for part in range(parts):
    with open(f'{folder}/part{part}.c', 'w') as out:
        out.write('#include <stdint.h>\n')
        for n in range(part, functions, parts):
            out.write(f'''
uint64_t f{n}(uint64_t x)
{{
    uint64_t y = x * {2 * n + 1}u + {n};
    for (int i = 0; i < {n % 5 + 1}; i++)
        y ^= y << {n % 13 + 1};
    return y;
}}
''')
with open(f'{folder}/main.c', 'w') as out:
    out.write('#include <stdint.h>\n#include <stdio.h>\n')
    for n in range(functions):
        out.write(f'uint64_t f{n}(uint64_t);\n')
    out.write('int main(void)\n{\n    uint64_t sum = 1;\n')
    for n in range(functions):
        out.write(f'    sum = f{n}(sum);\n')
    out.write('    printf("%llx\\n", (unsigned long long)sum);\n    return 0;\n}\n')
