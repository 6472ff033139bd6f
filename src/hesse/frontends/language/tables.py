"""The parse tables of `grammar.lark`, written by `build_tables.py`. Do not edit."""

# ruff: noqa
# fmt: off
from typing import Any

LARK_VERSION = "1.3.1"
GRAMMAR_DIGEST = "58ca3749c4097a1dd074fbe2de268971"
TABLES: Any = {'data': {'parser': {'lexer_conf': {'terminals': [{'@': 0}, {'@': 1}, {'@': 2}, {'@': 3}, {'@': 4}, {'@': 5},
{'@': 6}, {'@': 7}, {'@': 8}, {'@': 9}, {'@': 10}, {'@': 11}, {'@': 12}, {'@': 13}, {'@': 14}, {'@': 15},
{'@': 16}, {'@': 17}, {'@': 18}, {'@': 19}, {'@': 20}, {'@': 21}], 'ignore': ['__IGNORE_0'], 'g_regex_flags':
0, 'use_bytes': False, 'lexer_type': 'contextual', '__type__': 'LexerConf'}, 'parser_conf': {'rules': [{'@':
22}, {'@': 23}, {'@': 24}, {'@': 25}, {'@': 26}, {'@': 27}, {'@': 28}, {'@': 29}, {'@': 30}, {'@': 31}, {'@':
32}, {'@': 33}, {'@': 34}, {'@': 35}, {'@': 36}, {'@': 37}, {'@': 38}, {'@': 39}, {'@': 40}, {'@': 41}, {'@':
42}, {'@': 43}, {'@': 44}, {'@': 45}, {'@': 46}, {'@': 47}, {'@': 48}, {'@': 49}, {'@': 50}, {'@': 51}, {'@':
52}, {'@': 53}, {'@': 54}, {'@': 55}, {'@': 56}, {'@': 57}, {'@': 58}, {'@': 59}, {'@': 60}, {'@': 61}, {'@':
62}, {'@': 63}, {'@': 64}, {'@': 65}, {'@': 66}, {'@': 67}, {'@': 68}, {'@': 69}, {'@': 70}, {'@': 71}, {'@':
72}, {'@': 73}, {'@': 74}, {'@': 75}, {'@': 76}, {'@': 77}, {'@': 78}, {'@': 79}, {'@': 80}, {'@': 81}, {'@':
82}, {'@': 83}, {'@': 84}, {'@': 85}, {'@': 86}, {'@': 87}], 'start': ['start'], 'parser_type': 'lalr',
'__type__': 'ParserConf'}, 'parser': {'tokens': {0: 'COMMA', 1: 'SLASH', 2: 'MINUS', 3: 'RPAR', 4: '__ANON_2',
5: 'QUOTE', 6: 'CIRCUMFLEX', 7: '__ANON_0', 8: 'STAR', 9: '__ANON_1', 10: 'LSQB', 11: 'PLUS', 12: 'SEMICOLON',
13: '$END', 14: 'EQUAL', 15: 'WHERE', 16: 'RSQB', 17: 'SUM_OVER', 18: 'NAME', 19: 'LPAR', 20: 'NUMBER', 21:
'labels', 22: '__formula_star_3', 23: 'declared', 24: 'postfix', 25: 'sum', 26: 'product', 27: 'signed', 28:
'atom', 29: 'exponent', 30: 'definition', 31: 'words', 32: 'declaration', 33: 'formula', 34: 'size', 35:
'__atom_star_4', 36: '__labels_star_5', 37: '_sizes', 38: 'letters', 39: '__declaration_star_1', 40:
'___sizes_star_2', 41: 'STRING', 42: '__start_star_0', 43: 'start'}, 'states': {0: {0: (1, {'@': 58}), 1: (1,
{'@': 58}), 2: (1, {'@': 58}), 3: (1, {'@': 58}), 4: (1, {'@': 58}), 5: (1, {'@': 58}), 6: (1, {'@': 58}), 7:
(1, {'@': 58}), 8: (1, {'@': 58}), 9: (1, {'@': 58}), 10: (1, {'@': 58}), 11: (1, {'@': 58}), 12: (1, {'@':
58}), 13: (1, {'@': 58}), 14: (1, {'@': 58}), 15: (1, {'@': 58})}, 1: {13: (1, {'@': 22})}, 2: {0: (1, {'@':
51}), 16: (1, {'@': 51})}, 3: {17: (1, {'@': 77}), 2: (1, {'@': 77}), 18: (1, {'@': 77}), 19: (1, {'@': 77}),
11: (1, {'@': 77}), 20: (1, {'@': 77})}, 4: {12: (0, 3)}, 5: {18: (0, 62), 21: (0, 13)}, 6: {0: (1, {'@':
60}), 1: (1, {'@': 60}), 2: (1, {'@': 60}), 3: (1, {'@': 60}), 4: (1, {'@': 60}), 5: (1, {'@': 60}), 6: (1,
{'@': 60}), 7: (1, {'@': 60}), 8: (1, {'@': 60}), 9: (1, {'@': 60}), 10: (1, {'@': 60}), 11: (1, {'@': 60}),
12: (1, {'@': 60}), 13: (1, {'@': 60}), 14: (1, {'@': 60}), 15: (1, {'@': 60})}, 7: {22: (0, 14), 12: (0, 31),
13: (1, {'@': 38})}, 8: {23: (0, 45), 18: (0, 17)}, 9: {18: (0, 40)}, 10: {2: (0, 24), 14: (0, 98), 11: (0,
34), 13: (1, {'@': 40}), 12: (1, {'@': 40}), 15: (1, {'@': 40})}, 11: {12: (0, 1), 13: (1, {'@': 23})}, 12:
{2: (1, {'@': 63}), 5: (1, {'@': 63}), 6: (1, {'@': 63}), 12: (1, {'@': 63}), 13: (1, {'@': 63}), 7: (1, {'@':
63}), 9: (1, {'@': 63}), 10: (1, {'@': 63}), 14: (1, {'@': 63}), 11: (1, {'@': 63}), 0: (1, {'@': 63}), 1: (1,
{'@': 63}), 3: (1, {'@': 63}), 4: (1, {'@': 63}), 15: (1, {'@': 63}), 8: (1, {'@': 63})}, 13: {16: (0, 79)},
14: {12: (0, 71), 13: (1, {'@': 37})}, 15: {0: (0, 30), 16: (1, {'@': 74})}, 16: {2: (1, {'@': 64}), 5: (1,
{'@': 64}), 6: (1, {'@': 64}), 12: (1, {'@': 64}), 13: (1, {'@': 64}), 7: (1, {'@': 64}), 9: (1, {'@': 64}),
10: (1, {'@': 64}), 14: (1, {'@': 64}), 11: (1, {'@': 64}), 0: (1, {'@': 64}), 1: (1, {'@': 64}), 3: (1, {'@':
64}), 4: (1, {'@': 64}), 15: (1, {'@': 64}), 8: (1, {'@': 64})}, 17: {19: (0, 66), 0: (1, {'@': 32}), 12: (1,
{'@': 32})}, 18: {0: (1, {'@': 72}), 1: (1, {'@': 72}), 2: (1, {'@': 72}), 3: (1, {'@': 72}), 4: (1, {'@':
72}), 5: (1, {'@': 72}), 6: (1, {'@': 72}), 7: (1, {'@': 72}), 8: (1, {'@': 72}), 9: (1, {'@': 72}), 10: (1,
{'@': 72}), 11: (1, {'@': 72}), 12: (1, {'@': 72}), 13: (1, {'@': 72}), 14: (1, {'@': 72}), 15: (1, {'@':
72})}, 19: {24: (0, 67), 18: (0, 87), 25: (0, 53), 11: (0, 82), 17: (0, 49), 26: (0, 28), 2: (0, 22), 19: (0,
60), 20: (0, 68), 27: (0, 65), 28: (0, 110)}, 20: {0: (1, {'@': 47}), 1: (1, {'@': 47}), 2: (1, {'@': 47}), 3:
(1, {'@': 47}), 7: (1, {'@': 47}), 8: (1, {'@': 47}), 9: (1, {'@': 47}), 11: (1, {'@': 47}), 15: (1, {'@':
47}), 12: (1, {'@': 47}), 13: (1, {'@': 47}), 14: (1, {'@': 47})}, 21: {3: (0, 41), 0: (0, 44)}, 22: {24: (0,
67), 18: (0, 87), 27: (0, 118), 2: (0, 22), 19: (0, 60), 20: (0, 68), 11: (0, 82), 17: (0, 49), 28: (0, 110)},
23: {0: (1, {'@': 69}), 1: (1, {'@': 69}), 2: (1, {'@': 69}), 3: (1, {'@': 69}), 4: (1, {'@': 69}), 5: (1,
{'@': 69}), 6: (1, {'@': 69}), 7: (1, {'@': 69}), 8: (1, {'@': 69}), 9: (1, {'@': 69}), 10: (1, {'@': 69}),
11: (1, {'@': 69}), 12: (1, {'@': 69}), 13: (1, {'@': 69}), 14: (1, {'@': 69}), 15: (1, {'@': 69})}, 24: {24:
(0, 67), 18: (0, 87), 11: (0, 82), 17: (0, 49), 26: (0, 48), 2: (0, 22), 19: (0, 60), 20: (0, 68), 27: (0,
65), 28: (0, 110)}, 25: {0: (1, {'@': 46}), 1: (1, {'@': 46}), 2: (1, {'@': 46}), 3: (1, {'@': 46}), 7: (1,
{'@': 46}), 8: (1, {'@': 46}), 9: (1, {'@': 46}), 11: (1, {'@': 46}), 15: (1, {'@': 46}), 12: (1, {'@': 46}),
13: (1, {'@': 46}), 14: (1, {'@': 46})}, 26: {0: (1, {'@': 48}), 1: (1, {'@': 48}), 2: (1, {'@': 48}), 3: (1,
{'@': 48}), 7: (1, {'@': 48}), 8: (1, {'@': 48}), 9: (1, {'@': 48}), 11: (1, {'@': 48}), 15: (1, {'@': 48}),
12: (1, {'@': 48}), 13: (1, {'@': 48}), 14: (1, {'@': 48})}, 27: {18: (0, 87), 28: (0, 104), 19: (0, 60), 20:
(0, 68), 29: (0, 12), 17: (0, 49), 11: (0, 36), 2: (0, 27)}, 28: {8: (0, 105), 9: (0, 109), 1: (0, 47), 7: (0,
117), 0: (1, {'@': 42}), 2: (1, {'@': 42}), 3: (1, {'@': 42}), 11: (1, {'@': 42}), 12: (1, {'@': 42}), 14: (1,
{'@': 42}), 13: (1, {'@': 42}), 15: (1, {'@': 42})}, 29: {19: (0, 66), 0: (1, {'@': 32}), 12: (1, {'@': 32}),
18: (1, {'@': 29})}, 30: {18: (0, 78)}, 31: {24: (0, 67), 25: (0, 10), 18: (0, 87), 11: (0, 82), 17: (0, 49),
30: (0, 81), 26: (0, 28), 2: (0, 22), 19: (0, 60), 20: (0, 68), 27: (0, 65), 28: (0, 110)}, 32: {23: (0, 72),
18: (0, 29)}, 33: {0: (0, 69)}, 34: {24: (0, 67), 18: (0, 87), 11: (0, 82), 17: (0, 49), 26: (0, 55), 2: (0,
22), 19: (0, 60), 20: (0, 68), 27: (0, 65), 28: (0, 110)}, 35: {3: (0, 52), 0: (0, 44)}, 36: {18: (0, 87), 28:
(0, 104), 19: (0, 60), 20: (0, 68), 29: (0, 16), 17: (0, 49), 11: (0, 36), 2: (0, 27)}, 37: {17: (1, {'@':
76}), 2: (1, {'@': 76}), 18: (1, {'@': 76}), 19: (1, {'@': 76}), 11: (1, {'@': 76}), 20: (1, {'@': 76})}, 38:
{0: (1, {'@': 55}), 1: (1, {'@': 55}), 2: (1, {'@': 55}), 3: (1, {'@': 55}), 7: (1, {'@': 55}), 8: (1, {'@':
55}), 9: (1, {'@': 55}), 11: (1, {'@': 55}), 12: (1, {'@': 55}), 13: (1, {'@': 55}), 14: (1, {'@': 55}), 15:
(1, {'@': 55})}, 39: {0: (1, {'@': 57}), 1: (1, {'@': 57}), 2: (1, {'@': 57}), 3: (1, {'@': 57}), 4: (1, {'@':
57}), 5: (1, {'@': 57}), 6: (1, {'@': 57}), 7: (1, {'@': 57}), 8: (1, {'@': 57}), 9: (1, {'@': 57}), 10: (1,
{'@': 57}), 11: (1, {'@': 57}), 12: (1, {'@': 57}), 13: (1, {'@': 57}), 14: (1, {'@': 57}), 15: (1, {'@':
57})}, 40: {0: (1, {'@': 86}), 16: (1, {'@': 86})}, 41: {0: (1, {'@': 68}), 1: (1, {'@': 68}), 2: (1, {'@':
68}), 3: (1, {'@': 68}), 4: (1, {'@': 68}), 5: (1, {'@': 68}), 6: (1, {'@': 68}), 7: (1, {'@': 68}), 8: (1,
{'@': 68}), 9: (1, {'@': 68}), 10: (1, {'@': 68}), 11: (1, {'@': 68}), 12: (1, {'@': 68}), 13: (1, {'@': 68}),
14: (1, {'@': 68}), 15: (1, {'@': 68})}, 42: {19: (0, 84), 18: (1, {'@': 28}), 1: (1, {'@': 65}), 2: (1, {'@':
65}), 15: (1, {'@': 65}), 4: (1, {'@': 65}), 5: (1, {'@': 65}), 6: (1, {'@': 65}), 13: (1, {'@': 65}), 12: (1,
{'@': 65}), 7: (1, {'@': 65}), 8: (1, {'@': 65}), 9: (1, {'@': 65}), 10: (1, {'@': 65}), 14: (1, {'@': 65}),
11: (1, {'@': 65})}, 43: {2: (0, 24), 11: (0, 34), 13: (1, {'@': 41}), 12: (1, {'@': 41}), 15: (1, {'@':
41})}, 44: {24: (0, 67), 18: (0, 87), 25: (0, 88), 11: (0, 82), 17: (0, 49), 26: (0, 28), 2: (0, 22), 19: (0,
60), 20: (0, 68), 27: (0, 65), 28: (0, 110)}, 45: {0: (1, {'@': 79}), 12: (1, {'@': 79})}, 46: {15: (0, 96),
13: (1, {'@': 39}), 12: (1, {'@': 39})}, 47: {24: (0, 67), 18: (0, 87), 2: (0, 22), 19: (0, 60), 27: (0, 20),
20: (0, 68), 11: (0, 82), 17: (0, 49), 28: (0, 110)}, 48: {8: (0, 105), 9: (0, 109), 1: (0, 47), 7: (0, 117),
0: (1, {'@': 44}), 2: (1, {'@': 44}), 3: (1, {'@': 44}), 11: (1, {'@': 44}), 12: (1, {'@': 44}), 14: (1, {'@':
44}), 13: (1, {'@': 44}), 15: (1, {'@': 44})}, 49: {10: (0, 80)}, 50: {0: (1, {'@': 30}), 12: (1, {'@': 30})},
51: {0: (0, 8), 12: (1, {'@': 26})}, 52: {0: (1, {'@': 71}), 1: (1, {'@': 71}), 2: (1, {'@': 71}), 3: (1,
{'@': 71}), 4: (1, {'@': 71}), 5: (1, {'@': 71}), 6: (1, {'@': 71}), 7: (1, {'@': 71}), 8: (1, {'@': 71}), 9:
(1, {'@': 71}), 10: (1, {'@': 71}), 11: (1, {'@': 71}), 12: (1, {'@': 71}), 13: (1, {'@': 71}), 14: (1, {'@':
71}), 15: (1, {'@': 71})}, 53: {2: (0, 24), 11: (0, 34), 3: (1, {'@': 84}), 0: (1, {'@': 84})}, 54: {24: (0,
67), 25: (0, 10), 18: (0, 42), 31: (0, 32), 11: (0, 82), 17: (0, 49), 32: (0, 4), 26: (0, 28), 2: (0, 22), 19:
(0, 60), 20: (0, 68), 30: (0, 46), 33: (0, 11), 27: (0, 65), 28: (0, 110)}, 55: {8: (0, 105), 9: (0, 109), 1:
(0, 47), 7: (0, 117), 0: (1, {'@': 43}), 2: (1, {'@': 43}), 3: (1, {'@': 43}), 11: (1, {'@': 43}), 12: (1,
{'@': 43}), 14: (1, {'@': 43}), 13: (1, {'@': 43}), 15: (1, {'@': 43})}, 56: {0: (0, 85), 3: (1, {'@': 33})},
57: {16: (0, 0)}, 58: {0: (1, {'@': 59}), 1: (1, {'@': 59}), 2: (1, {'@': 59}), 3: (1, {'@': 59}), 4: (1,
{'@': 59}), 5: (1, {'@': 59}), 6: (1, {'@': 59}), 7: (1, {'@': 59}), 8: (1, {'@': 59}), 9: (1, {'@': 59}), 10:
(1, {'@': 59}), 11: (1, {'@': 59}), 12: (1, {'@': 59}), 13: (1, {'@': 59}), 14: (1, {'@': 59}), 15: (1, {'@':
59})}, 59: {34: (0, 89), 18: (0, 83), 20: (0, 102)}, 60: {24: (0, 67), 18: (0, 87), 25: (0, 101), 11: (0, 82),
17: (0, 49), 26: (0, 28), 2: (0, 22), 19: (0, 60), 20: (0, 68), 27: (0, 65), 28: (0, 110)}, 61: {0: (0, 19),
3: (0, 18), 35: (0, 35)}, 62: {0: (0, 9), 36: (0, 15), 16: (1, {'@': 75})}, 63: {24: (0, 67), 18: (0, 87), 25:
(0, 92), 11: (0, 82), 17: (0, 49), 26: (0, 28), 2: (0, 22), 19: (0, 60), 20: (0, 68), 27: (0, 65), 28: (0,
110)}, 64: {35: (0, 21), 11: (0, 34), 0: (0, 19), 2: (0, 24), 3: (0, 23)}, 65: {0: (1, {'@': 45}), 1: (1,
{'@': 45}), 2: (1, {'@': 45}), 3: (1, {'@': 45}), 7: (1, {'@': 45}), 8: (1, {'@': 45}), 9: (1, {'@': 45}), 11:
(1, {'@': 45}), 15: (1, {'@': 45}), 12: (1, {'@': 45}), 13: (1, {'@': 45}), 14: (1, {'@': 45})}, 66: {18: (0,
83), 37: (0, 70), 34: (0, 76), 20: (0, 102), 3: (0, 77)}, 67: {6: (0, 119), 4: (0, 113), 5: (0, 39), 10: (0,
114), 0: (1, {'@': 53}), 1: (1, {'@': 53}), 2: (1, {'@': 53}), 3: (1, {'@': 53}), 7: (1, {'@': 53}), 8: (1,
{'@': 53}), 9: (1, {'@': 53}), 11: (1, {'@': 53}), 12: (1, {'@': 53}), 13: (1, {'@': 53}), 14: (1, {'@': 53}),
15: (1, {'@': 53})}, 68: {0: (1, {'@': 66}), 1: (1, {'@': 66}), 2: (1, {'@': 66}), 3: (1, {'@': 66}), 4: (1,
{'@': 66}), 5: (1, {'@': 66}), 6: (1, {'@': 66}), 7: (1, {'@': 66}), 8: (1, {'@': 66}), 9: (1, {'@': 66}), 10:
(1, {'@': 66}), 11: (1, {'@': 66}), 12: (1, {'@': 66}), 13: (1, {'@': 66}), 14: (1, {'@': 66}), 15: (1, {'@':
66})}, 69: {18: (0, 2), 38: (0, 91), 0: (1, {'@': 52})}, 70: {3: (0, 50)}, 71: {24: (0, 67), 25: (0, 10), 18:
(0, 87), 11: (0, 82), 17: (0, 49), 26: (0, 28), 2: (0, 22), 19: (0, 60), 20: (0, 68), 27: (0, 65), 28: (0,
110), 30: (0, 95)}, 72: {39: (0, 51), 0: (0, 111), 12: (1, {'@': 27})}, 73: {38: (0, 33), 18: (0, 2), 0: (1,
{'@': 52})}, 74: {0: (1, {'@': 78}), 12: (1, {'@': 78})}, 75: {12: (0, 37)}, 76: {40: (0, 56), 0: (0, 59), 3:
(1, {'@': 34})}, 77: {0: (1, {'@': 31}), 12: (1, {'@': 31})}, 78: {0: (1, {'@': 87}), 16: (1, {'@': 87})}, 79:
{2: (1, {'@': 62}), 5: (1, {'@': 62}), 6: (1, {'@': 62}), 12: (1, {'@': 62}), 13: (1, {'@': 62}), 7: (1, {'@':
62}), 9: (1, {'@': 62}), 10: (1, {'@': 62}), 14: (1, {'@': 62}), 11: (1, {'@': 62}), 0: (1, {'@': 62}), 1: (1,
{'@': 62}), 3: (1, {'@': 62}), 4: (1, {'@': 62}), 15: (1, {'@': 62}), 8: (1, {'@': 62})}, 80: {18: (0, 62),
21: (0, 115)}, 81: {13: (1, {'@': 82}), 12: (1, {'@': 82})}, 82: {24: (0, 67), 18: (0, 87), 2: (0, 22), 19:
(0, 60), 27: (0, 38), 20: (0, 68), 11: (0, 82), 17: (0, 49), 28: (0, 110)}, 83: {3: (1, {'@': 36}), 0: (1,
{'@': 36})}, 84: {24: (0, 67), 18: (0, 87), 25: (0, 64), 11: (0, 82), 17: (0, 49), 26: (0, 28), 2: (0, 22),
19: (0, 60), 20: (0, 68), 41: (0, 61), 3: (0, 116), 27: (0, 65), 28: (0, 110)}, 85: {34: (0, 93), 18: (0, 83),
20: (0, 102)}, 86: {0: (1, {'@': 49}), 1: (1, {'@': 49}), 2: (1, {'@': 49}), 3: (1, {'@': 49}), 7: (1, {'@':
49}), 8: (1, {'@': 49}), 9: (1, {'@': 49}), 11: (1, {'@': 49}), 15: (1, {'@': 49}), 12: (1, {'@': 49}), 13:
(1, {'@': 49}), 14: (1, {'@': 49})}, 87: {19: (0, 84), 0: (1, {'@': 65}), 1: (1, {'@': 65}), 2: (1, {'@':
65}), 3: (1, {'@': 65}), 4: (1, {'@': 65}), 5: (1, {'@': 65}), 6: (1, {'@': 65}), 7: (1, {'@': 65}), 8: (1,
{'@': 65}), 9: (1, {'@': 65}), 10: (1, {'@': 65}), 11: (1, {'@': 65}), 12: (1, {'@': 65}), 13: (1, {'@': 65}),
14: (1, {'@': 65}), 15: (1, {'@': 65})}, 88: {2: (0, 24), 11: (0, 34), 3: (1, {'@': 85}), 0: (1, {'@': 85})},
89: {3: (1, {'@': 80}), 0: (1, {'@': 80})}, 90: {0: (1, {'@': 73}), 1: (1, {'@': 73}), 2: (1, {'@': 73}), 3:
(1, {'@': 73}), 4: (1, {'@': 73}), 5: (1, {'@': 73}), 6: (1, {'@': 73}), 7: (1, {'@': 73}), 8: (1, {'@': 73}),
9: (1, {'@': 73}), 10: (1, {'@': 73}), 11: (1, {'@': 73}), 12: (1, {'@': 73}), 13: (1, {'@': 73}), 14: (1,
{'@': 73}), 15: (1, {'@': 73})}, 91: {0: (0, 97)}, 92: {2: (0, 24), 3: (0, 90), 11: (0, 34)}, 93: {3: (1,
{'@': 81}), 0: (1, {'@': 81})}, 94: {19: (0, 63)}, 95: {13: (1, {'@': 83}), 12: (1, {'@': 83})}, 96: {24: (0,
67), 25: (0, 10), 18: (0, 87), 11: (0, 82), 17: (0, 49), 30: (0, 7), 26: (0, 28), 2: (0, 22), 19: (0, 60), 20:
(0, 68), 27: (0, 65), 28: (0, 110)}, 97: {38: (0, 106), 18: (0, 2), 16: (1, {'@': 52})}, 98: {24: (0, 67), 18:
(0, 87), 25: (0, 43), 11: (0, 82), 17: (0, 49), 26: (0, 28), 2: (0, 22), 19: (0, 60), 20: (0, 68), 27: (0,
65), 28: (0, 110)}, 99: {24: (0, 67), 18: (0, 87), 2: (0, 22), 19: (0, 60), 27: (0, 112), 20: (0, 68), 11: (0,
82), 17: (0, 49), 28: (0, 110)}, 100: {}, 101: {2: (0, 24), 3: (0, 120), 11: (0, 34)}, 102: {3: (1, {'@':
35}), 0: (1, {'@': 35})}, 103: {24: (0, 67), 25: (0, 10), 18: (0, 42), 31: (0, 32), 32: (0, 75), 11: (0, 82),
17: (0, 49), 26: (0, 28), 2: (0, 22), 19: (0, 60), 20: (0, 68), 30: (0, 46), 42: (0, 54), 33: (0, 108), 43:
(0, 100), 27: (0, 65), 28: (0, 110)}, 104: {10: (0, 5), 2: (1, {'@': 61}), 5: (1, {'@': 61}), 6: (1, {'@':
61}), 12: (1, {'@': 61}), 13: (1, {'@': 61}), 7: (1, {'@': 61}), 9: (1, {'@': 61}), 14: (1, {'@': 61}), 11:
(1, {'@': 61}), 0: (1, {'@': 61}), 1: (1, {'@': 61}), 3: (1, {'@': 61}), 4: (1, {'@': 61}), 15: (1, {'@':
61}), 8: (1, {'@': 61})}, 105: {24: (0, 67), 18: (0, 87), 10: (0, 73), 11: (0, 82), 17: (0, 49), 2: (0, 22),
19: (0, 60), 20: (0, 68), 27: (0, 25), 28: (0, 110)}, 106: {16: (0, 99)}, 107: {13: (1, {'@': 24})}, 108: {12:
(0, 107), 13: (1, {'@': 25})}, 109: {24: (0, 67), 18: (0, 87), 27: (0, 86), 2: (0, 22), 19: (0, 60), 20: (0,
68), 11: (0, 82), 17: (0, 49), 28: (0, 110)}, 110: {0: (1, {'@': 56}), 1: (1, {'@': 56}), 2: (1, {'@': 56}),
3: (1, {'@': 56}), 4: (1, {'@': 56}), 5: (1, {'@': 56}), 6: (1, {'@': 56}), 7: (1, {'@': 56}), 8: (1, {'@':
56}), 9: (1, {'@': 56}), 10: (1, {'@': 56}), 11: (1, {'@': 56}), 12: (1, {'@': 56}), 13: (1, {'@': 56}), 14:
(1, {'@': 56}), 15: (1, {'@': 56})}, 111: {23: (0, 74), 18: (0, 17)}, 112: {0: (1, {'@': 50}), 1: (1, {'@':
50}), 2: (1, {'@': 50}), 3: (1, {'@': 50}), 7: (1, {'@': 50}), 8: (1, {'@': 50}), 9: (1, {'@': 50}), 11: (1,
{'@': 50}), 15: (1, {'@': 50}), 12: (1, {'@': 50}), 13: (1, {'@': 50}), 14: (1, {'@': 50})}, 113: {18: (0,
87), 28: (0, 104), 19: (0, 60), 29: (0, 6), 20: (0, 68), 17: (0, 49), 11: (0, 36), 2: (0, 27)}, 114: {18: (0,
62), 21: (0, 57)}, 115: {16: (0, 94)}, 116: {0: (1, {'@': 70}), 1: (1, {'@': 70}), 2: (1, {'@': 70}), 3: (1,
{'@': 70}), 4: (1, {'@': 70}), 5: (1, {'@': 70}), 6: (1, {'@': 70}), 7: (1, {'@': 70}), 8: (1, {'@': 70}), 9:
(1, {'@': 70}), 10: (1, {'@': 70}), 11: (1, {'@': 70}), 12: (1, {'@': 70}), 13: (1, {'@': 70}), 14: (1, {'@':
70}), 15: (1, {'@': 70})}, 117: {24: (0, 67), 18: (0, 87), 27: (0, 26), 2: (0, 22), 19: (0, 60), 20: (0, 68),
11: (0, 82), 17: (0, 49), 28: (0, 110)}, 118: {0: (1, {'@': 54}), 1: (1, {'@': 54}), 2: (1, {'@': 54}), 3: (1,
{'@': 54}), 7: (1, {'@': 54}), 8: (1, {'@': 54}), 9: (1, {'@': 54}), 11: (1, {'@': 54}), 12: (1, {'@': 54}),
13: (1, {'@': 54}), 14: (1, {'@': 54}), 15: (1, {'@': 54})}, 119: {18: (0, 87), 28: (0, 104), 19: (0, 60), 20:
(0, 68), 29: (0, 58), 17: (0, 49), 11: (0, 36), 2: (0, 27)}, 120: {0: (1, {'@': 67}), 1: (1, {'@': 67}), 2:
(1, {'@': 67}), 3: (1, {'@': 67}), 4: (1, {'@': 67}), 5: (1, {'@': 67}), 6: (1, {'@': 67}), 7: (1, {'@': 67}),
8: (1, {'@': 67}), 9: (1, {'@': 67}), 10: (1, {'@': 67}), 11: (1, {'@': 67}), 12: (1, {'@': 67}), 13: (1,
{'@': 67}), 14: (1, {'@': 67}), 15: (1, {'@': 67})}}, 'start_states': {'start': 103}, 'end_states': {'start':
100}}, '__type__': 'ParsingFrontend'}, 'rules': [{'@': 22}, {'@': 23}, {'@': 24}, {'@': 25}, {'@': 26}, {'@':
27}, {'@': 28}, {'@': 29}, {'@': 30}, {'@': 31}, {'@': 32}, {'@': 33}, {'@': 34}, {'@': 35}, {'@': 36}, {'@':
37}, {'@': 38}, {'@': 39}, {'@': 40}, {'@': 41}, {'@': 42}, {'@': 43}, {'@': 44}, {'@': 45}, {'@': 46}, {'@':
47}, {'@': 48}, {'@': 49}, {'@': 50}, {'@': 51}, {'@': 52}, {'@': 53}, {'@': 54}, {'@': 55}, {'@': 56}, {'@':
57}, {'@': 58}, {'@': 59}, {'@': 60}, {'@': 61}, {'@': 62}, {'@': 63}, {'@': 64}, {'@': 65}, {'@': 66}, {'@':
67}, {'@': 68}, {'@': 69}, {'@': 70}, {'@': 71}, {'@': 72}, {'@': 73}, {'@': 74}, {'@': 75}, {'@': 76}, {'@':
77}, {'@': 78}, {'@': 79}, {'@': 80}, {'@': 81}, {'@': 82}, {'@': 83}, {'@': 84}, {'@': 85}, {'@': 86}, {'@':
87}], 'options': {'debug': False, 'strict': False, 'keep_all_tokens': False, 'tree_class': None, 'cache':
False, 'cache_grammar': False, 'postlex': None, 'parser': 'lalr', 'lexer': 'contextual', 'transformer': None,
'start': ['start'], 'priority': 'normal', 'ambiguity': 'auto', 'regex': False, 'propagate_positions': True,
'lexer_callbacks': {}, 'maybe_placeholders': False, 'edit_terminals': None, 'g_regex_flags': 0, 'use_bytes':
False, 'ordered_sets': True, 'import_paths': [], 'source_path': None, '_plugins': {}}, '__type__': 'Lark'},
'memo': {0: {'name': 'SUM_OVER', 'pattern': {'value': 'sum(?=\\s*\\[)', 'flags': [], 'raw':
'/sum(?=\\s*\\[)/', '_width': [3, 3], '__type__': 'PatternRE'}, 'priority': 2, '__type__': 'TerminalDef'}, 1:
{'name': 'NAME', 'pattern': {'value': '[A-Za-z][A-Za-z0-9_]*', 'flags': [], 'raw': '/[A-Za-z][A-Za-z0-9_]*/',
'_width': [1, 18446744073709551616], '__type__': 'PatternRE'}, 'priority': 0, '__type__': 'TerminalDef'}, 2:
{'name': 'NUMBER', 'pattern': {'value': "(\\d+\\.\\d+|\\d+\\.(?![*\\/^'\\d])|\\.\\d+|\\d+)([eE][+-]?\\d+)?",
'flags': [], 'raw': "/(\\d+\\.\\d+|\\d+\\.(?![*\\/^'\\d])|\\.\\d+|\\d+)([eE][+-]?\\d+)?/", '_width': [1,
18446744073709551616], '__type__': 'PatternRE'}, 'priority': 0, '__type__': 'TerminalDef'}, 3: {'name':
'STRING', 'pattern': {'value': '"[^"\n]*"', 'flags': [], 'raw': '/"[^"\\n]*"/', '_width': [2,
18446744073709551616], '__type__': 'PatternRE'}, 'priority': 0, '__type__': 'TerminalDef'}, 4: {'name':
'__IGNORE_0', 'pattern': {'value': '\\s+', 'flags': [], 'raw': '/\\s+/', '_width': [1, 18446744073709551616],
'__type__': 'PatternRE'}, 'priority': 0, '__type__': 'TerminalDef'}, 5: {'name': 'SEMICOLON', 'pattern':
{'value': ';', 'flags': [], 'raw': '";"', '__type__': 'PatternStr'}, 'priority': 0, '__type__':
'TerminalDef'}, 6: {'name': 'COMMA', 'pattern': {'value': ',', 'flags': [], 'raw': '","', '__type__':
'PatternStr'}, 'priority': 0, '__type__': 'TerminalDef'}, 7: {'name': 'LPAR', 'pattern': {'value': '(',
'flags': [], 'raw': '"("', '__type__': 'PatternStr'}, 'priority': 0, '__type__': 'TerminalDef'}, 8: {'name':
'RPAR', 'pattern': {'value': ')', 'flags': [], 'raw': '")"', '__type__': 'PatternStr'}, 'priority': 0,
'__type__': 'TerminalDef'}, 9: {'name': 'WHERE', 'pattern': {'value': 'where', 'flags': [], 'raw': '"where"',
'__type__': 'PatternStr'}, 'priority': 0, '__type__': 'TerminalDef'}, 10: {'name': 'EQUAL', 'pattern':
{'value': '=', 'flags': [], 'raw': '"="', '__type__': 'PatternStr'}, 'priority': 0, '__type__':
'TerminalDef'}, 11: {'name': 'PLUS', 'pattern': {'value': '+', 'flags': [], 'raw': '"+"', '__type__':
'PatternStr'}, 'priority': 0, '__type__': 'TerminalDef'}, 12: {'name': 'MINUS', 'pattern': {'value': '-',
'flags': [], 'raw': '"-"', '__type__': 'PatternStr'}, 'priority': 0, '__type__': 'TerminalDef'}, 13: {'name':
'STAR', 'pattern': {'value': '*', 'flags': [], 'raw': '"*"', '__type__': 'PatternStr'}, 'priority': 0,
'__type__': 'TerminalDef'}, 14: {'name': 'SLASH', 'pattern': {'value': '/', 'flags': [], 'raw': '"/"',
'__type__': 'PatternStr'}, 'priority': 0, '__type__': 'TerminalDef'}, 15: {'name': '__ANON_0', 'pattern':
{'value': '.*', 'flags': [], 'raw': '".*"', '__type__': 'PatternStr'}, 'priority': 0, '__type__':
'TerminalDef'}, 16: {'name': '__ANON_1', 'pattern': {'value': './', 'flags': [], 'raw': '"./"', '__type__':
'PatternStr'}, 'priority': 0, '__type__': 'TerminalDef'}, 17: {'name': 'LSQB', 'pattern': {'value': '[',
'flags': [], 'raw': '"["', '__type__': 'PatternStr'}, 'priority': 0, '__type__': 'TerminalDef'}, 18: {'name':
'RSQB', 'pattern': {'value': ']', 'flags': [], 'raw': '"]"', '__type__': 'PatternStr'}, 'priority': 0,
'__type__': 'TerminalDef'}, 19: {'name': 'QUOTE', 'pattern': {'value': "'", 'flags': [], 'raw': '"\'"',
'__type__': 'PatternStr'}, 'priority': 0, '__type__': 'TerminalDef'}, 20: {'name': 'CIRCUMFLEX', 'pattern':
{'value': '^', 'flags': [], 'raw': '"^"', '__type__': 'PatternStr'}, 'priority': 0, '__type__':
'TerminalDef'}, 21: {'name': '__ANON_2', 'pattern': {'value': '.^', 'flags': [], 'raw': '".^"', '__type__':
'PatternStr'}, 'priority': 0, '__type__': 'TerminalDef'}, 22: {'origin': {'name': 'start', '__type__':
'NonTerminal'}, 'expansion': [{'name': '__start_star_0', '__type__': 'NonTerminal'}, {'name': 'formula',
'__type__': 'NonTerminal'}, {'name': 'SEMICOLON', 'filter_out': True, '__type__': 'Terminal'}], 'order': 0,
'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 23: {'origin': {'name': 'start',
'__type__': 'NonTerminal'}, 'expansion': [{'name': '__start_star_0', '__type__': 'NonTerminal'}, {'name':
'formula', '__type__': 'NonTerminal'}], 'order': 1, 'alias': None, 'options': {'keep_all_tokens': False,
'expand1': False, 'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'},
'__type__': 'Rule'}, 24: {'origin': {'name': 'start', '__type__': 'NonTerminal'}, 'expansion': [{'name':
'formula', '__type__': 'NonTerminal'}, {'name': 'SEMICOLON', 'filter_out': True, '__type__': 'Terminal'}],
'order': 2, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 25: {'origin':
{'name': 'start', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'formula', '__type__': 'NonTerminal'}],
'order': 3, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 26: {'origin':
{'name': 'declaration', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'words', '__type__':
'NonTerminal'}, {'name': 'declared', '__type__': 'NonTerminal'}, {'name': '__declaration_star_1', '__type__':
'NonTerminal'}], 'order': 0, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False,
'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__':
'Rule'}, 27: {'origin': {'name': 'declaration', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'words',
'__type__': 'NonTerminal'}, {'name': 'declared', '__type__': 'NonTerminal'}], 'order': 1, 'alias': None,
'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source': None,
'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 28: {'origin': {'name': 'words',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'NAME', 'filter_out': False, '__type__': 'Terminal'}],
'order': 0, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 29: {'origin':
{'name': 'words', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'words', '__type__': 'NonTerminal'},
{'name': 'NAME', 'filter_out': False, '__type__': 'Terminal'}], 'order': 1, 'alias': None, 'options':
{'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source': None, 'empty_indices': (),
'__type__': 'RuleOptions'}, '__type__': 'Rule'}, 30: {'origin': {'name': 'declared', '__type__':
'NonTerminal'}, 'expansion': [{'name': 'NAME', 'filter_out': False, '__type__': 'Terminal'}, {'name': 'LPAR',
'filter_out': True, '__type__': 'Terminal'}, {'name': '_sizes', '__type__': 'NonTerminal'}, {'name': 'RPAR',
'filter_out': True, '__type__': 'Terminal'}], 'order': 0, 'alias': None, 'options': {'keep_all_tokens': False,
'expand1': False, 'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'},
'__type__': 'Rule'}, 31: {'origin': {'name': 'declared', '__type__': 'NonTerminal'}, 'expansion': [{'name':
'NAME', 'filter_out': False, '__type__': 'Terminal'}, {'name': 'LPAR', 'filter_out': True, '__type__':
'Terminal'}, {'name': 'RPAR', 'filter_out': True, '__type__': 'Terminal'}], 'order': 1, 'alias': None,
'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source': None,
'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 32: {'origin': {'name': 'declared',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'NAME', 'filter_out': False, '__type__': 'Terminal'}],
'order': 2, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 33: {'origin':
{'name': '_sizes', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'size', '__type__': 'NonTerminal'},
{'name': '___sizes_star_2', '__type__': 'NonTerminal'}], 'order': 0, 'alias': None, 'options':
{'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source': None, 'empty_indices': (),
'__type__': 'RuleOptions'}, '__type__': 'Rule'}, 34: {'origin': {'name': '_sizes', '__type__': 'NonTerminal'},
'expansion': [{'name': 'size', '__type__': 'NonTerminal'}], 'order': 1, 'alias': None, 'options':
{'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source': None, 'empty_indices': (),
'__type__': 'RuleOptions'}, '__type__': 'Rule'}, 35: {'origin': {'name': 'size', '__type__': 'NonTerminal'},
'expansion': [{'name': 'NUMBER', 'filter_out': False, '__type__': 'Terminal'}], 'order': 0, 'alias': None,
'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source': None,
'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 36: {'origin': {'name': 'size',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'NAME', 'filter_out': False, '__type__': 'Terminal'}],
'order': 1, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 37: {'origin':
{'name': 'formula', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'definition', '__type__':
'NonTerminal'}, {'name': 'WHERE', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'definition',
'__type__': 'NonTerminal'}, {'name': '__formula_star_3', '__type__': 'NonTerminal'}], 'order': 0, 'alias':
None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source': None,
'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 38: {'origin': {'name': 'formula',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'definition', '__type__': 'NonTerminal'}, {'name': 'WHERE',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'definition', '__type__': 'NonTerminal'}], 'order': 1,
'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 39: {'origin': {'name': 'formula',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'definition', '__type__': 'NonTerminal'}], 'order': 2,
'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 40: {'origin': {'name':
'definition', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'sum', '__type__': 'NonTerminal'}], 'order':
0, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 41: {'origin': {'name':
'definition', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'sum', '__type__': 'NonTerminal'}, {'name':
'EQUAL', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'sum', '__type__': 'NonTerminal'}], 'order': 1,
'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 42: {'origin': {'name': 'sum',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'product', '__type__': 'NonTerminal'}], 'order': 0,
'alias': None, 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 43: {'origin': {'name': 'sum',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'sum', '__type__': 'NonTerminal'}, {'name': 'PLUS',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'product', '__type__': 'NonTerminal'}], 'order': 1,
'alias': 'plus', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 44: {'origin': {'name': 'sum',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'sum', '__type__': 'NonTerminal'}, {'name': 'MINUS',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'product', '__type__': 'NonTerminal'}], 'order': 2,
'alias': 'minus', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 45: {'origin': {'name': 'product',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'signed', '__type__': 'NonTerminal'}], 'order': 0, 'alias':
None, 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source': None,
'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 46: {'origin': {'name': 'product',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'product', '__type__': 'NonTerminal'}, {'name': 'STAR',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'signed', '__type__': 'NonTerminal'}], 'order': 1,
'alias': 'times', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 47: {'origin': {'name': 'product',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'product', '__type__': 'NonTerminal'}, {'name': 'SLASH',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'signed', '__type__': 'NonTerminal'}], 'order': 2,
'alias': 'divide', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 48: {'origin': {'name': 'product',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'product', '__type__': 'NonTerminal'}, {'name': '__ANON_0',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'signed', '__type__': 'NonTerminal'}], 'order': 3,
'alias': 'dot_times', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 49: {'origin':
{'name': 'product', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'product', '__type__': 'NonTerminal'},
{'name': '__ANON_1', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'signed', '__type__':
'NonTerminal'}], 'order': 4, 'alias': 'dot_divide', 'options': {'keep_all_tokens': False, 'expand1': True,
'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__':
'Rule'}, 50: {'origin': {'name': 'product', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'product',
'__type__': 'NonTerminal'}, {'name': 'STAR', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'LSQB',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'letters', '__type__': 'NonTerminal'}, {'name': 'COMMA',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'letters', '__type__': 'NonTerminal'}, {'name': 'COMMA',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'letters', '__type__': 'NonTerminal'}, {'name': 'RSQB',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'signed', '__type__': 'NonTerminal'}], 'order': 5,
'alias': 'contraction', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 51: {'origin':
{'name': 'letters', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'NAME', 'filter_out': False,
'__type__': 'Terminal'}], 'order': 0, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False,
'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__':
'Rule'}, 52: {'origin': {'name': 'letters', '__type__': 'NonTerminal'}, 'expansion': [], 'order': 1, 'alias':
None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source': None,
'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 53: {'origin': {'name': 'signed',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'postfix', '__type__': 'NonTerminal'}], 'order': 0,
'alias': None, 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 54: {'origin': {'name': 'signed',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'MINUS', 'filter_out': True, '__type__': 'Terminal'},
{'name': 'signed', '__type__': 'NonTerminal'}], 'order': 1, 'alias': 'negative', 'options':
{'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source': None, 'empty_indices': (),
'__type__': 'RuleOptions'}, '__type__': 'Rule'}, 55: {'origin': {'name': 'signed', '__type__': 'NonTerminal'},
'expansion': [{'name': 'PLUS', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'signed', '__type__':
'NonTerminal'}], 'order': 2, 'alias': 'positive', 'options': {'keep_all_tokens': False, 'expand1': True,
'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__':
'Rule'}, 56: {'origin': {'name': 'postfix', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'atom',
'__type__': 'NonTerminal'}], 'order': 0, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': True,
'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__':
'Rule'}, 57: {'origin': {'name': 'postfix', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'postfix',
'__type__': 'NonTerminal'}, {'name': 'QUOTE', 'filter_out': True, '__type__': 'Terminal'}], 'order': 1,
'alias': 'transpose', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 58: {'origin':
{'name': 'postfix', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'postfix', '__type__': 'NonTerminal'},
{'name': 'LSQB', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'labels', '__type__': 'NonTerminal'},
{'name': 'RSQB', 'filter_out': True, '__type__': 'Terminal'}], 'order': 2, 'alias': 'entries', 'options':
{'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source': None, 'empty_indices': (),
'__type__': 'RuleOptions'}, '__type__': 'Rule'}, 59: {'origin': {'name': 'postfix', '__type__':
'NonTerminal'}, 'expansion': [{'name': 'postfix', '__type__': 'NonTerminal'}, {'name': 'CIRCUMFLEX',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'exponent', '__type__': 'NonTerminal'}], 'order': 3,
'alias': 'power', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 60: {'origin': {'name': 'postfix',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'postfix', '__type__': 'NonTerminal'}, {'name': '__ANON_2',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'exponent', '__type__': 'NonTerminal'}], 'order': 4,
'alias': 'dot_power', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 61: {'origin':
{'name': 'exponent', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'atom', '__type__': 'NonTerminal'}],
'order': 0, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 62: {'origin':
{'name': 'exponent', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'atom', '__type__': 'NonTerminal'},
{'name': 'LSQB', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'labels', '__type__': 'NonTerminal'},
{'name': 'RSQB', 'filter_out': True, '__type__': 'Terminal'}], 'order': 1, 'alias': 'entries', 'options':
{'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source': None, 'empty_indices': (),
'__type__': 'RuleOptions'}, '__type__': 'Rule'}, 63: {'origin': {'name': 'exponent', '__type__':
'NonTerminal'}, 'expansion': [{'name': 'MINUS', 'filter_out': True, '__type__': 'Terminal'}, {'name':
'exponent', '__type__': 'NonTerminal'}], 'order': 2, 'alias': 'negative', 'options': {'keep_all_tokens':
False, 'expand1': True, 'priority': None, 'template_source': None, 'empty_indices': (), '__type__':
'RuleOptions'}, '__type__': 'Rule'}, 64: {'origin': {'name': 'exponent', '__type__': 'NonTerminal'},
'expansion': [{'name': 'PLUS', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'exponent', '__type__':
'NonTerminal'}], 'order': 3, 'alias': 'positive', 'options': {'keep_all_tokens': False, 'expand1': True,
'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__':
'Rule'}, 65: {'origin': {'name': 'atom', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'NAME',
'filter_out': False, '__type__': 'Terminal'}], 'order': 0, 'alias': 'name', 'options': {'keep_all_tokens':
False, 'expand1': True, 'priority': None, 'template_source': None, 'empty_indices': (), '__type__':
'RuleOptions'}, '__type__': 'Rule'}, 66: {'origin': {'name': 'atom', '__type__': 'NonTerminal'}, 'expansion':
[{'name': 'NUMBER', 'filter_out': False, '__type__': 'Terminal'}], 'order': 1, 'alias': 'number', 'options':
{'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source': None, 'empty_indices': (),
'__type__': 'RuleOptions'}, '__type__': 'Rule'}, 67: {'origin': {'name': 'atom', '__type__': 'NonTerminal'},
'expansion': [{'name': 'LPAR', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'sum', '__type__':
'NonTerminal'}, {'name': 'RPAR', 'filter_out': True, '__type__': 'Terminal'}], 'order': 2, 'alias': None,
'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source': None,
'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 68: {'origin': {'name': 'atom',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'NAME', 'filter_out': False, '__type__': 'Terminal'},
{'name': 'LPAR', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'sum', '__type__': 'NonTerminal'},
{'name': '__atom_star_4', '__type__': 'NonTerminal'}, {'name': 'RPAR', 'filter_out': True, '__type__':
'Terminal'}], 'order': 3, 'alias': 'call', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority':
None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 69:
{'origin': {'name': 'atom', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'NAME', 'filter_out': False,
'__type__': 'Terminal'}, {'name': 'LPAR', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'sum',
'__type__': 'NonTerminal'}, {'name': 'RPAR', 'filter_out': True, '__type__': 'Terminal'}], 'order': 4,
'alias': 'call', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source':
None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 70: {'origin': {'name': 'atom',
'__type__': 'NonTerminal'}, 'expansion': [{'name': 'NAME', 'filter_out': False, '__type__': 'Terminal'},
{'name': 'LPAR', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'RPAR', 'filter_out': True, '__type__':
'Terminal'}], 'order': 5, 'alias': 'call', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority':
None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 71:
{'origin': {'name': 'atom', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'NAME', 'filter_out': False,
'__type__': 'Terminal'}, {'name': 'LPAR', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'STRING',
'filter_out': False, '__type__': 'Terminal'}, {'name': '__atom_star_4', '__type__': 'NonTerminal'}, {'name':
'RPAR', 'filter_out': True, '__type__': 'Terminal'}], 'order': 6, 'alias': 'call', 'options':
{'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source': None, 'empty_indices': (),
'__type__': 'RuleOptions'}, '__type__': 'Rule'}, 72: {'origin': {'name': 'atom', '__type__': 'NonTerminal'},
'expansion': [{'name': 'NAME', 'filter_out': False, '__type__': 'Terminal'}, {'name': 'LPAR', 'filter_out':
True, '__type__': 'Terminal'}, {'name': 'STRING', 'filter_out': False, '__type__': 'Terminal'}, {'name':
'RPAR', 'filter_out': True, '__type__': 'Terminal'}], 'order': 7, 'alias': 'call', 'options':
{'keep_all_tokens': False, 'expand1': True, 'priority': None, 'template_source': None, 'empty_indices': (),
'__type__': 'RuleOptions'}, '__type__': 'Rule'}, 73: {'origin': {'name': 'atom', '__type__': 'NonTerminal'},
'expansion': [{'name': 'SUM_OVER', 'filter_out': False, '__type__': 'Terminal'}, {'name': 'LSQB',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'labels', '__type__': 'NonTerminal'}, {'name': 'RSQB',
'filter_out': True, '__type__': 'Terminal'}, {'name': 'LPAR', 'filter_out': True, '__type__': 'Terminal'},
{'name': 'sum', '__type__': 'NonTerminal'}, {'name': 'RPAR', 'filter_out': True, '__type__': 'Terminal'}],
'order': 8, 'alias': 'sum_over', 'options': {'keep_all_tokens': False, 'expand1': True, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 74: {'origin':
{'name': 'labels', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'NAME', 'filter_out': False, '__type__':
'Terminal'}, {'name': '__labels_star_5', '__type__': 'NonTerminal'}], 'order': 0, 'alias': None, 'options':
{'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source': None, 'empty_indices': (),
'__type__': 'RuleOptions'}, '__type__': 'Rule'}, 75: {'origin': {'name': 'labels', '__type__': 'NonTerminal'},
'expansion': [{'name': 'NAME', 'filter_out': False, '__type__': 'Terminal'}], 'order': 1, 'alias': None,
'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source': None,
'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 76: {'origin': {'name':
'__start_star_0', '__type__': 'NonTerminal'}, 'expansion': [{'name': 'declaration', '__type__':
'NonTerminal'}, {'name': 'SEMICOLON', 'filter_out': True, '__type__': 'Terminal'}], 'order': 0, 'alias': None,
'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None, 'template_source': None,
'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 77: {'origin': {'name':
'__start_star_0', '__type__': 'NonTerminal'}, 'expansion': [{'name': '__start_star_0', '__type__':
'NonTerminal'}, {'name': 'declaration', '__type__': 'NonTerminal'}, {'name': 'SEMICOLON', 'filter_out': True,
'__type__': 'Terminal'}], 'order': 1, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False,
'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__':
'Rule'}, 78: {'origin': {'name': '__declaration_star_1', '__type__': 'NonTerminal'}, 'expansion': [{'name':
'COMMA', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'declared', '__type__': 'NonTerminal'}],
'order': 0, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 79: {'origin':
{'name': '__declaration_star_1', '__type__': 'NonTerminal'}, 'expansion': [{'name': '__declaration_star_1',
'__type__': 'NonTerminal'}, {'name': 'COMMA', 'filter_out': True, '__type__': 'Terminal'}, {'name':
'declared', '__type__': 'NonTerminal'}], 'order': 1, 'alias': None, 'options': {'keep_all_tokens': False,
'expand1': False, 'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'},
'__type__': 'Rule'}, 80: {'origin': {'name': '___sizes_star_2', '__type__': 'NonTerminal'}, 'expansion':
[{'name': 'COMMA', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'size', '__type__': 'NonTerminal'}],
'order': 0, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 81: {'origin':
{'name': '___sizes_star_2', '__type__': 'NonTerminal'}, 'expansion': [{'name': '___sizes_star_2', '__type__':
'NonTerminal'}, {'name': 'COMMA', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'size', '__type__':
'NonTerminal'}], 'order': 1, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False,
'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__':
'Rule'}, 82: {'origin': {'name': '__formula_star_3', '__type__': 'NonTerminal'}, 'expansion': [{'name':
'SEMICOLON', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'definition', '__type__': 'NonTerminal'}],
'order': 0, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 83: {'origin':
{'name': '__formula_star_3', '__type__': 'NonTerminal'}, 'expansion': [{'name': '__formula_star_3',
'__type__': 'NonTerminal'}, {'name': 'SEMICOLON', 'filter_out': True, '__type__': 'Terminal'}, {'name':
'definition', '__type__': 'NonTerminal'}], 'order': 1, 'alias': None, 'options': {'keep_all_tokens': False,
'expand1': False, 'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'},
'__type__': 'Rule'}, 84: {'origin': {'name': '__atom_star_4', '__type__': 'NonTerminal'}, 'expansion':
[{'name': 'COMMA', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'sum', '__type__': 'NonTerminal'}],
'order': 0, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority': None,
'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 85: {'origin':
{'name': '__atom_star_4', '__type__': 'NonTerminal'}, 'expansion': [{'name': '__atom_star_4', '__type__':
'NonTerminal'}, {'name': 'COMMA', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'sum', '__type__':
'NonTerminal'}], 'order': 1, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False,
'priority': None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__':
'Rule'}, 86: {'origin': {'name': '__labels_star_5', '__type__': 'NonTerminal'}, 'expansion': [{'name':
'COMMA', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'NAME', 'filter_out': False, '__type__':
'Terminal'}], 'order': 0, 'alias': None, 'options': {'keep_all_tokens': False, 'expand1': False, 'priority':
None, 'template_source': None, 'empty_indices': (), '__type__': 'RuleOptions'}, '__type__': 'Rule'}, 87:
{'origin': {'name': '__labels_star_5', '__type__': 'NonTerminal'}, 'expansion': [{'name': '__labels_star_5',
'__type__': 'NonTerminal'}, {'name': 'COMMA', 'filter_out': True, '__type__': 'Terminal'}, {'name': 'NAME',
'filter_out': False, '__type__': 'Terminal'}], 'order': 1, 'alias': None, 'options': {'keep_all_tokens':
False, 'expand1': False, 'priority': None, 'template_source': None, 'empty_indices': (), '__type__':
'RuleOptions'}, '__type__': 'Rule'}}}
