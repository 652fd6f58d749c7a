"""Prices of models in USD per million tokens. Written by `tools/price_table.py`: do not edit.

A line is the names of one model and its prices, each of input, cache read, cache write for 5 minutes, cache write for
1 hour, output; `>200000` begins the rates of a prompt of more tokens. A later price goes before an earlier one.

The data is that of genai-prices, under this license:

The MIT License (MIT)

Copyright (c) Pydantic Services Inc. 2025 to present

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""
# ruff: noqa: E501

SOURCE = "genai-prices 0.2.3"
TABLE_DIGEST = "c9bec270"

TABLE = """\
[anthropic]
claude-2 claude-v2 = 8 8 8 8 24
claude-3-5-haiku-latest claude-3-5-haiku claude-3.5-haiku = 0.8 0.08 1 1.6 4
claude-3-5-sonnet claude-3.5-sonnet = 3 0.3 3.75 6 15
claude-3-7-sonnet-latest claude-3-7-sonnet claude-3.7-sonnet claude-sonnet-3.7 claude-sonnet-3-7 = 3 0.3 3.75 6 15
claude-3-haiku = 0.25 0.03 0.3 0.5 1.25
claude-3-opus-latest claude-3-opus = 15 1.5 18.75 30 75
claude-3-sonnet = 3 0.3 3.75 6 15
claude-fable-5 = 10 1 12.5 20 50
claude-fable-5-1 = 10 0.25 12.5 20 50
claude-fable-5-2 = 8 0.2 10 16 40
claude-haiku-4-5 claude-haiku-4.5 claude-4-5-haiku claude-4.5-haiku = 1 0.1 1.25 2 5
claude-haiku-5-5 claude-haiku-5.5 claude-5-5-haiku claude-5.5-haiku = 0.1 0.01 0.125 0.2 0.5 >100000 0.5 0.05 0.625 1 2.5
claude-mythos-5-2 = 8 0.2 10 16 40
claude-opus-4-0 claude-4-opus claude-opus-4 = 15 1.5 18.75 30 75
claude-opus-4-1 claude-opus-4.1 = 15 1.5 18.75 30 75
claude-opus-4-5 claude-opus-4.5 claude-4-5-opus claude-4.5-opus = 5 0.5 6.25 10 25
claude-opus-4-6 claude-opus-4.6 claude-4-6-opus claude-4.6-opus = 5 0.5 6.25 10 25 >200000 10 1 12.5 20 37.5 | from 2026-03-13 5 0.5 6.25 10 25
claude-opus-4-7 claude-opus-4.7 claude-4-7-opus claude-4.7-opus = 5 0.5 6.25 10 25
claude-opus-4-8 claude-opus-4.8 claude-4-8-opus claude-4.8-opus = 5 0.5 6.25 10 25
claude-opus-5 claude-opus-5-latest claude-opus-5.0 claude-5-opus claude-5.0-opus = 5 0.5 6.25 10 25
claude-opus-5-5 claude-opus-5.5 claude-5-5-opus claude-5.5-opus = 4 0.2 5 8 20
claude-sonnet-4-0 claude-sonnet-4 claude-4-sonnet = 3 0.3 3.75 6 15
claude-sonnet-4-5 claude-sonnet-4.5 = 3 0.3 3.75 6 15 >200000 6 0.6 7.5 12 22.5
claude-sonnet-4-6 claude-sonnet-4.6 = 3 0.3 3.75 6 15 >200000 6 0.6 7.5 12 22.5 | from 2026-03-13 3 0.3 3.75 6 15
claude-sonnet-5 claude-sonnet-5.0 claude-5-sonnet claude-5.0-sonnet = 2 0.2 2.5 4 10
claude-sonnet-5-5 claude-sonnet-5.5 claude-5-5-sonnet claude-5.5-sonnet = 2 0.1 2.5 4 10
claude-v1 = 8 8 8 8 24

[openai]
chatgpt-4o-latest = 5 5 5 5 15
codex-mini codex-mini-latest = 1.5 0.375 1.5 1.5 6
computer-use = 3 3 3 3 12
gpt-3.5-0301 gpt-3.5-turbo-0301 = 1.5 1.5 1.5 1.5 2
gpt-3.5-turbo gpt-35-turbo gpt-3.5-turbo-0125 = 0.5 0.5 0.5 0.5 1.5
gpt-3.5-turbo-0613 = 1.5 1.5 1.5 1.5 2
gpt-3.5-turbo-1106 = 1 1 1 1 2
gpt-3.5-turbo-16k gpt-3.5-turbo-16k-0613 gpt-35-turbo-16k-0613 gpt-35-turbo-16k = 3 3 3 3 4
gpt-3.5-turbo-instruct gpt-3.5-turbo-instruct-0914 = 1.5 1.5 1.5 1.5 2
gpt-4 gpt-4-0314 gpt-4-0613 = 30 30 30 30 60
gpt-4-32k gpt-4-32k-0314 gpt-4-32k-0613 = 60 60 60 60 120
gpt-4-turbo gpt-4-turbo-0125-preview gpt-4-0125-preview gpt-4-1106-preview gpt-4-turbo-preview = 10 10 10 10 30
gpt-4-vision-preview gpt-4-1106-vision-preview = 10 10 10 10 30
gpt-4.1 = 2 0.5 2 2 8
gpt-4.1-mini = 0.4 0.1 0.4 0.4 1.6
gpt-4.1-nano = 0.1 0.025 0.1 0.1 0.4
gpt-4.5-preview = 75 37.5 75 75 150
gpt-4o = 2.5 1.25 2.5 2.5 10
gpt-4o-2024-05-13 = 5 5 5 5 15
gpt-4o-mini gpt-4o-mini-search-preview = 0.15 0.075 0.15 0.15 0.6
gpt-4o-search-preview = 2.5 2.5 2.5 2.5 10
gpt-5 gpt-5-chat gpt-5-chat-latest gpt-5-codex = 1.25 0.125 1.25 1.25 10
gpt-5-mini = 0.25 0.025 0.25 0.25 2
gpt-5-nano = 0.05 0.005 0.05 0.05 0.4
gpt-5-pro = 15 15 15 15 120
gpt-5-search-api = 1.25 0.125 1.25 1.25 10
gpt-5.1 gpt-5.1-codex gpt-5.1-codex-max gpt-5.1-chat gpt-5.1-chat-latest gpt-5-1 gpt-5-1-codex gpt-5-1-codex-max gpt-5-1-chat gpt-5-1-chat-latest = 1.25 0.125 1.25 1.25 10
gpt-5.1-codex-mini gpt-5.1-mini gpt-5-1-codex-mini gpt-5-1-mini = 0.25 0.025 0.25 0.25 2
gpt-5.2 gpt-5-2 gpt-5.2-chat gpt-5.2-chat-latest gpt-5-2-chat gpt-5-2-chat-latest gpt-5.2-codex gpt-5-2-codex = 1.75 0.175 1.75 1.75 14
gpt-5.2-pro gpt-5-2-pro-2025-12-11 = 21 21 21 21 168
gpt-5.3 gpt-5-3 gpt-5.3-chat gpt-5.3-chat-latest gpt-5-3-chat gpt-5-3-chat-latest = 1.75 0.175 1.75 1.75 14
gpt-5.3-codex gpt-5-3-codex = 1.75 0.175 1.75 1.75 14
gpt-5.4 gpt-5-4 = 2.5 0.25 2.5 2.5 15 >272000 5 0.5 5 5 22.5
gpt-5.4-mini gpt-5-4-mini = 0.75 0.075 0.75 0.75 4.5
gpt-5.4-nano gpt-5-4-nano = 0.2 0.02 0.2 0.2 1.25
gpt-5.4-pro gpt-5-4-pro = 30 30 30 30 180 >272000 60 60 60 60 270
gpt-5.5 gpt-5-5 gpt-5.5-chat gpt-5.5-chat-latest gpt-5-5-chat gpt-5-5-chat-latest gpt-5.5-codex gpt-5-5-codex = 5 0.5 5 5 30 >272000 10 1 10 10 45
gpt-5.5-cyber = 12.5 12.5 12.5 12.5 75 | from 2026-10-19 12.5 1.25 12.5 12.5 75
gpt-5.5-pro gpt-5-5-pro = 30 30 30 30 180 >272000 60 60 60 60 270
gpt-5.6-cyber = 12.5 1.25 15.625 15.625 75
gpt-5.6-luna gpt-5-6-luna = 1 0.1 1.25 1.25 6 >272000 2 0.2 2.5 2.5 9 | from 2026-07-30 0.2 0.02 0.25 0.25 1.2 >272000 0.4 0.04 0.5 0.5 1.8
gpt-5.6-sol gpt-5-6-sol gpt-5.6 gpt-5-6 = 5 0.5 6.25 6.25 30 >272000 10 1 12.5 12.5 45 | from 2026-08-21 4 0.4 5 5 20 >272000 8 0.8 10 10 30
gpt-5.6-terra gpt-5-6-terra = 2.5 0.25 3.125 3.125 15 >272000 5 0.5 6.25 6.25 22.5 | from 2026-07-30 2 0.2 2.5 2.5 12 >272000 4 0.4 5 5 18
gpt-6-astra = 10 1 12.5 12.5 50 >272000 20 2 25 25 75
gpt-6-cyber = 20 2 25 25 100
gpt-6-luna = 0.1 0.01 0.125 0.125 0.5 >272000 0.2 0.02 0.25 0.25 0.75
gpt-6-rosalind = 15 1.5 18.75 18.75 75 >272000 30 3 37.5 37.5 112.5
gpt-6-sol = 2 0.2 2.5 2.5 10 >272000 4 0.4 5 5 15
gpt-6.1-sol = 2 0.1 2.5 2.5 10 >272000 4 0.2 5 5 15
gpt-6.1-terra = 1 0.05 1.25 1.25 5 >272000 2 0.1 2.5 2.5 7.5
gpt-chat-latest chat-latest = 5 0.5 5 5 30
gpt-rosalind-discovery = 5 0.5 5 5 25
gpt-rosalind-research = 5 0.5 5 5 25
o1 = 15 7.5 15 15 60
o1-mini = 1.1 0.55 1.1 1.1 4.4
o1-preview = 15 7.5 15 15 60
o1-pro = 150 150 150 150 600
o3 = 10 0.5 10 10 40 | from 2025-06-10 2 0.5 2 2 8
o3-deep-research = 10 2.5 10 10 40
o3-mini o3-mini-high = 1.1 0.55 1.1 1.1 4.4
o3-pro = 20 20 20 20 80
o4-mini o4-mini-high = 1.1 0.275 1.1 1.1 4.4
o4-mini-deep-research = 2 0.5 2 2 8

[google]
gemini-1.0-pro-vision-001 = 0.125 0.125 0.125 0.125 0.375
gemini-1.5-flash = 0.075 0.01875 0.075 0.075 0.3 >128000 0.15 0.0375 0.15 0.15 0.6
gemini-1.5-pro = 1.25 1.25 1.25 1.25 5 >128000 2.5 2.5 2.5 2.5 10
gemini-2.0-flash gemini-2.0-flash-0 gemini-2.0-flash-exp gemini-2.0-flash-thinking gemini-2.0-flash-latest = 0.1 0.025 0.1 0.1 0.4
gemini-2.0-flash-lite = 0.075 0.075 0.075 0.075 0.3
gemini-2.5-flash gemini-2.5-flash-latest gemini-2.5-flash-preview-09-2025 = 0.3 0.03 0.3 0.3 2.5
gemini-2.5-flash-lite = 0.1 0.01 0.1 0.1 0.4
gemini-2.5-flash-preview gemini-2.5-flash-preview-05-20 gemini-2.5-flash-preview-04-17 = 0.15 0.15 0.15 0.15 0.6
gemini-2.5-pro = 1.25 0.125 1.25 1.25 10 >200000 2.5 0.25 2.5 2.5 15
gemini-3-flash-preview = 0.5 0.05 0.5 0.5 3 | from 2026-01-05 0.5 0.05 0.5 0.5 3
gemini-3-pro-preview gemini-3-pro-text-preview = 2 0.2 2 2 12 >200000 4 0.4 4 4 18 | from 2026-01-05 2 0.2 2 2 12 >200000 4 0.4 4 4 18
gemini-3.1-flash-lite gemini-3.1-flash-lite-preview = 0.25 0.025 0.25 0.25 1.5
gemini-3.1-pro-preview gemini-pro-latest = 2 0.2 2 2 12 >200000 4 0.4 4 4 18
gemini-3.5-flash gemini-3.5-flash-preview = 1.5 0.15 1.5 1.5 9
gemini-3.5-flash-lite gemini-flash-lite-latest = 0.3 0.03 0.3 0.3 2.5
gemini-3.6-flash = 0.75 0.075 0.75 0.75 3.75 | from 2027-01-01 1.5 0.15 1.5 1.5 7.5
gemini-3.7-flash = 0.75 0.075 0.75 0.75 3.75 | from 2027-01-01 1.5 0.15 1.5 1.5 7.5
gemini-3.8-flash gemini-flash-latest = 0.75 0.075 0.75 0.75 3.75 | from 2027-01-01 1.5 0.15 1.5 1.5 7.5
gemini-4-argon gemini-4-argon-preview = 2 0.1 2 2 10 | from 2026-12-01 4 0.2 4 4 20
gemini-flash-1.5 = 0.075 0.01875 0.075 0.075 0.3 >128000 0.15 0.0375 0.15 0.15 0.6
gemini-flash-1.5-8b = 0.0375 0.01 0.0375 0.0375 0.15 >128000 0.075 0.02 0.075 0.075 0.3
gemini-pro gemini-1.0-pro = 0.125 0.125 0.125 0.125 0.375
gemini-pro-1.5 = 1.25 0.3125 1.25 1.25 5 >128000 2.5 0.625 2.5 2.5 10
gemini-robotics-er-2-preview = 1 0.1 1 1 5 | from 2027-01-01 2 0.2 2 2 10
gemini-robotics-er-2-streaming-preview = 1 1 1 1 5 | from 2027-01-01 2 2 2 2 10

[x-ai]
grok-2-1212 grok-2 grok-2-latest = 2 2 2 2 10
grok-2-vision-1212 grok-2-vision grok-2-vision-latest = 2 2 2 2 10
grok-3 grok-3-latest grok-3-beta = 3 0.75 3 3 15
grok-3-fast grok-3-fast-latest grok-3-fast-beta = 5 1.25 5 5 25
grok-3-mini grok-3-mini-beta grok-3-mini-latest = 0.3 0.075 0.3 0.3 0.5
grok-3-mini-fast grok-3-mini-fast-beta grok-3-mini-fast-latest = 0.6 0.15 0.6 0.6 4
grok-4-0709 grok-4 grok-4-latest = 3 0.75 3 3 15
grok-4-1-fast-non-reasoning grok-4-1-fast-non-reasoning-latest = 0.2 0.05 0.2 0.2 0.5
grok-4-1-fast-reasoning grok-4-1-fast grok-4-1-fast-reasoning-latest = 0.2 0.05 0.2 0.2 0.5
grok-4-fast-non-reasoning grok-4-fast-non-reasoning-latest = 0.2 0.05 0.2 0.2 0.5
grok-4-fast-reasoning grok-4-fast grok-4-fast-reasoning-latest = 0.2 0.05 0.2 0.2 0.5
grok-4.20 grok-4.20-0309-reasoning grok-4.20-0309-non-reasoning = 2 0.2 2 2 6 >199999 4 0.4 4 4 12 | from 2026-04-30 1.25 0.2 1.25 1.25 2.5 >199999 2.5 0.4 2.5 2.5 5
grok-4.20-multi-agent-0309 grok-4.20-multi-agent grok-4.20-multi-agent-beta-0309 grok-4.20-multi-agent-latest grok-4.20-multi-agent-beta-latest = 2 0.2 2 2 6 >199999 4 0.4 4 4 12 | from 2026-04-30 1.25 0.2 1.25 1.25 2.5 >199999 2.5 0.4 2.5 2.5 5
grok-4.3 grok-4.3-latest = 1.25 0.2 1.25 1.25 2.5 >199999 2.5 0.4 2.5 2.5 5
grok-4.5 grok-4.5-latest grok-latest = 2 0.3 2 2 6 >199999 4 0.6 4 4 12
grok-4.6 grok-4.6-latest = 2 0.5 2 2 6 >199999 4 1 4 4 12
grok-4.7 grok-4.7-latest = 2 0.5 2 2 6 >199999 4 1 4 4 12
grok-build-0.1 = 1 0.2 1 1 2 >199999 2 0.4 2 2 4
grok-code-fast-1 grok-code-fast grok-code-fast-1-0825 = 0.2 0.02 0.2 0.2 1.5

[deepseek]
deepseek-chat deepseek-chat-v3-0324 = 0.135 0.035 0.135 0.135 0.55 | 00:30-16:30 0.27 0.07 0.27 0.27 1.1
deepseek-flash = 0.15 0.003 0.15 0.15 0.6 | 01:00-04:00 0.3 0.006 0.3 0.3 1.2 | 06:00-10:00 0.3 0.006 0.3 0.3 1.2
deepseek-reasoner deepseek-r1 deepseek-r1-0528 = 0.135 0.035 0.135 0.135 0.55 | 00:30-16:30 0.55 0.14 0.55 0.55 2.19
deepseek-v3.1-terminus = 0.27 0.13 0.27 0.27 0.95
deepseek-v3.2 = 0.2288 0.2288 0.2288 0.2288 0.3432
deepseek-v3.2-exp = 0.27 0.27 0.27 0.27 0.41
deepseek-v4-flash = 0.14 0.0028 0.14 0.14 0.28 | from 2026-08-17 0.22 0.007 0.22 0.22 0.66 | from 2026-09-10 0.15 0.003 0.15 0.15 0.6 | 01:00-04:00 0.3 0.006 0.3 0.3 1.2 | 06:00-10:00 0.3 0.006 0.3 0.3 1.2
deepseek-v4-pro = 0.435 0.003625 0.435 0.435 0.87 | from 2026-08-17 0.66 0.022 0.66 0.66 1.98 | 01:00-04:00 1.32 0.044 1.32 1.32 3.96 | 06:00-10:00 1.32 0.044 1.32 1.32 3.96

[mistral]
codestral-latest codestral-2501 = 0.3 0.3 0.3 0.3 0.9
codestral-2508 = 0.3 0.03 0.3 0.3 0.9
deepseek-v4-1-flash-1017 = 0.3 0.007 0.3 0.3 1.2
devstral-2512 = 0.4 0.04 0.4 0.4 2
devstral-small devstral-small-2505 devstral-small-2507 devstral-small-latest labs-devstral-small-2512 = 0.1 0.1 0.1 0.1 0.3
magistral-medium = 2 2 2 2 5
ministral-14b-2512 = 0.2 0.02 0.2 0.2 0.2
ministral-3b = 0.04 0.04 0.04 0.04 0.04
ministral-3b-2512 = 0.1 0.01 0.1 0.1 0.1
ministral-8b ministral-8b-2410 = 0.1 0.1 0.1 0.1 0.1
ministral-8b-2512 = 0.15 0.015 0.15 0.15 0.15
ministral-8b-latest = 0.1 0.1 0.1 0.1 0.1 | from 2025-12-02 0.15 0.015 0.15 0.15 0.15
mistral-7b open-mistral-7b = 0.25 0.25 0.25 0.25 0.25
mistral-large mistral-large-latest mistral-large-2407 mistral-large-2411 = 2 2 2 2 6
mistral-large-2512 = 0.5 0.05 0.5 0.5 1.5
mistral-large-4 mistral-large-4-0 = 0.68 0.07 0.68 0.68 2.09 | from 2026-10-20 1.36 0.14 1.36 1.36 4.18 | from 2026-10-29 0.7 0.07 0.7 0.7 2.1
mistral-medium-2312 = 2.7 2.7 2.7 2.7 8.1
mistral-medium mistral-medium-2505 mistral-medium-2508 = 0.4 0.04 0.4 0.4 2
mistral-medium-3-5 mistral-medium-3.5 mistral-medium-3 mistral-medium-2604 = 1.5 0.15 1.5 1.5 7.5
mistral-medium-latest = 0.4 0.04 0.4 0.4 2 | from 2026-06-16 1.5 0.15 1.5 1.5 7.5
mistral-nemo open-mistral-nemo = 0.15 0.15 0.15 0.15 0.15
mistral-saba mistral-saba-latest = 0.2 0.2 0.2 0.2 0.6
mistral-small-24b-instruct-2501 = 0.05 0.05 0.05 0.05 0.08
mistral-small-2603 = 0.15 0.015 0.15 0.15 0.6
mistral-small-3.1-24b-instruct = 0.351 0.351 0.351 0.351 0.555
mistral-small-3.2-24b-instruct mistral-small-2506 = 0.1 0.1 0.1 0.1 0.3
mistral-small-latest = 0.1 0.1 0.1 0.1 0.3 | from 2026-03-16 0.15 0.015 0.15 0.15 0.6
mistral-tiny = 0.25 0.25 0.25 0.25 0.25
mixtral-8x22b-instruct open-mixtral-8x22b = 2 2 2 2 6
mixtral-8x7b open-mixtral-8x7b = 0.7 0.7 0.7 0.7 0.7
pixtral-12b pixtral-12b-latest = 0.15 0.15 0.15 0.15 0.15
pixtral-large-latest pixtral-large-2411 = 2 2 2 2 6
voxtral-small-24b-2507 voxtral-small-2507 voxtral-small-latest = 0.1 0.01 0.1 0.1 0.3 | from 2026-08-11 0.1 0.01 0.1 0.1 0.4
zai-glm-5-3 = 1.4 0.14 1.4 1.4 4.4
zai-glm-5-3-flash = 0.15 0.03 0.15 0.15 0.5

[moonshotai]
kimi-k2 = 0.57 0.57 0.57 0.57 2.3
kimi-k2-0711-preview = 0.6 0.15 0.6 0.6 2.5
kimi-k2-0905-preview = 0.6 0.15 0.6 0.6 2.5
kimi-k2-thinking = 0.6 0.15 0.6 0.6 2.5
kimi-k2-thinking-turbo = 1.15 0.15 1.15 1.15 8
kimi-k2-turbo-preview kimi-k2-turbo = 1.15 0.15 1.15 1.15 8
kimi-k2.5 = 0.6 0.1 0.6 0.6 3
kimi-k2.6 = 0.95 0.16 0.95 0.95 4
kimi-k2.7-code = 0.95 0.19 0.95 0.95 4
kimi-k2.7-code-highspeed = 1.9 0.38 1.9 1.9 8
kimi-k3 = 3 0.3 3 6 15
kimi-k3.1-pro = 2 0.2 2 4 10
kimi-k3.1-pro-highspeed = 4 0.2 4 8 20
moonshot-v1-128k moonshot-v1-128k-vision-preview = 2 2 2 2 5
moonshot-v1-32k moonshot-v1-32k-vision-preview = 1 1 1 1 3
moonshot-v1-8k moonshot-v1-8k-vision-preview = 0.2 0.2 0.2 0.2 2

[zai]
glm-4-32b-0414-128k = 0.1 0.1 0.1 0.1 0.1
glm-4.5 = 0.6 0.11 0.6 0.6 2.2
glm-4.5-air = 0.2 0.03 0.2 0.2 1.1
glm-4.5-airx = 1.1 0.22 1.1 1.1 4.5
glm-4.5-x = 2.2 0.45 2.2 2.2 8.9
glm-4.5v = 0.6 0.11 0.6 0.6 1.8
glm-4.6 = 0.6 0.11 0.6 0.6 2.2
glm-4.6v = 0.3 0.05 0.3 0.3 0.9
glm-4.6v-flashx = 0.04 0.004 0.04 0.04 0.4
glm-4.7 = 0.6 0.11 0.6 0.6 2.2
glm-4.7-flashx = 0.07 0.01 0.07 0.07 0.4
glm-5 = 1 0.2 1 1 3.2
glm-5.1 = 1.4 0.26 1.4 1.4 4.4
glm-5.2 = 1.4 0.26 1.4 1.4 4.4
glm-5.3 = 1.4 0.26 1.4 1.4 4.4
glm-5.3-flash = 0.075 0.015 0.075 0.075 0.25 | from 2026-09-10 0.15 0.03 0.15 0.15 0.5
glm-5.3-flashx glm-5.3-flashx-legal = 0.37 0.075 0.37 0.37 1.25

[minimax]
m2-her = 0.3 0.3 0.3 0.3 1.2
minimax-m2 minimax-m2.1 minimax-m2.5 = 0.3 0.03 0.375 0.375 1.2
minimax-m2.1-highspeed m2.1-highspeed = 0.6 0.03 0.375 0.375 2.4
minimax-m2.5-highspeed m2.5-highspeed = 0.6 0.03 0.375 0.375 2.4
minimax-m2.7 = 0.3 0.06 0.375 0.375 1.2
minimax-m2.7-highspeed m2.7-highspeed = 0.6 0.06 0.375 0.375 2.4
minimax-m3.1-flash = 0.15 0.015 0.15 0.15 0.6
minimax-01 = 0.2 0.2 0.2 0.2 1.1
minimax-m1 = 0.4 0.4 0.4 0.4 2.2
minimax-m3 = 0.3 0.06 0.3 0.3 1.2 >512000 0.6 0.12 0.6 0.6 2.4

[meta]
muse-spark-1.1 = 1.25 0.15 1.25 1.25 4.25
muse-spark-1.2 = 1.25 0.15 1.25 1.25 4.25
muse-spark-1.2-contributor = 0.1 0.002 0.1 0.1 0.2
muse-spark-1.3 = 1.25 0.15 1.25 1.25 4.25
muse-spark-1.3-contributor = 0.1 0.002 0.1 0.1 0.2
muse-wonder-1.0 = 4 0.2 4 4 20

[cursor]
composer-2.5 = 0.5 0.2 0.5 0.5 2.5
composer-2.5-fast = 3 0.5 3 3 15

[aws]
amazon.nova-lite = 0.06 0.015 0.06 0.06 0.24
amazon.nova-micro = 0.035 0.00875 0.035 0.035 0.14
amazon.nova-premier = 2.5 0.625 2.5 2.5 12.5
amazon.nova-pro = 0.8 0.2 0.8 0.8 3.2
amazon.titan-text-express = 0.2 0.2 0.2 0.2 0.6
amazon.titan-text-lite = 0.15 0.15 0.15 0.15 0.2
deepseek.r1 = 1.35 1.35 1.35 1.35 5.4
global.amazon.nova-2-lite = 0.3 0.075 0.3 0.3 2.5
global.anthropic.claude-fable-5-1 = 10 0.25 12.5 20 50
global.anthropic.claude-fable-5-2 = 8 0.2 10 16 40
global.anthropic.claude-fable-5 = 10 1 12.5 20 50
global.anthropic.claude-haiku-4-5 = 1 0.1 1.25 2 5
global.anthropic.claude-haiku-5-5 = 0.1 0.01 0.125 0.2 0.5 >100000 0.5 0.05 0.625 1 2.5
global.anthropic.claude-mythos-5-2 = 8 0.2 10 16 40
global.anthropic.claude-opus-4-5 = 5 0.5 6.25 10 25
global.anthropic.claude-opus-4-6 = 5 0.5 6.25 10 25
global.anthropic.claude-opus-4-7 = 5 0.5 6.25 10 25
global.anthropic.claude-opus-4-8 = 5 0.5 6.25 10 25
global.anthropic.claude-opus-5 = 5 0.5 6.25 10 25
global.anthropic.claude-opus-5-5 = 4 0.2 5 8 20
global.anthropic.claude-sonnet-4 = 3 0.3 3.75 6 15
global.anthropic.claude-sonnet-4-5 = 3 0.3 3.75 6 15
global.anthropic.claude-sonnet-4-6 = 3 0.3 3.75 6 15
global.anthropic.claude-sonnet-5-5 = 2 0.1 2.5 4 10
global.anthropic.claude-sonnet-5 = 2 0.2 2.5 4 10
global.moonshotai.kimi-k3 = 3 0.3 3.75 3.75 15
global.moonshotai.kimi-k3.1 = 4 0.2 5 5 20
global.openai.gpt-5.6-luna = 0.2 0.02 0.25 0.25 1.2 >272000 0.4 0.04 0.5 0.5 1.8
global.openai.gpt-5.6-sol = 5 0.5 6.25 6.25 30 >272000 10 1 12.5 12.5 45 | from 2026-08-21 4 0.4 5 5 20 >272000 8 0.8 10 10 30
global.openai.gpt-5.6-terra = 2 0.2 2.5 2.5 12 >272000 4 0.4 5 5 18
global.openai.gpt-6-astra = 10 1 12.5 12.5 50 >272000 20 2 25 25 75
global.openai.gpt-6-luna = 0.1 0.01 0.125 0.125 0.5 >272000 0.2 0.02 0.25 0.25 0.75
global.openai.gpt-6-sol = 2 0.2 2.5 2.5 10 >272000 4 0.4 5 5 15
global.openai.gpt-6.1-sol = 2 0.1 2.5 2.5 10 >272000 4 0.2 5 5 15
global.openai.gpt-6.1-terra = 1 0.05 1.25 1.25 5 >272000 2 0.1 2.5 2.5 7.5
global.zai.glm-5.3 = 1.68 0.312 2.1 2.1 5.28
google.gemma-3-12b-it = 0.09 0.09 0.09 0.09 0.29
google.gemma-3-27b-it = 0.23 0.23 0.23 0.23 0.38
google.gemma-3-4b-it = 0.04 0.04 0.04 0.04 0.08
meta.llama3-1-70b-instruct = 0.72 0.72 0.72 0.72 0.72
meta.llama3-1-8b-instruct = 0.22 0.22 0.22 0.22 0.22
meta.llama3-2-11b-instruct = 0.16 0.16 0.16 0.16 0.16
meta.llama3-2-1b-instruct = 0.1 0.1 0.1 0.1 0.1
meta.llama3-2-3b-instruct = 0.15 0.15 0.15 0.15 0.15
meta.llama3-2-90b-instruct = 0.72 0.72 0.72 0.72 0.72
meta.llama3-3-70b-instruct = 0.72 0.72 0.72 0.72 0.72
meta.llama3-70b-instruct = 2.65 2.65 2.65 2.65 3.5
meta.llama3-8b-instruct = 0.3 0.3 0.3 0.3 0.6
meta.llama4-maverick-17b-instruct = 0.24 0.24 0.24 0.24 0.97
meta.llama4-scout-17b-instruct = 0.17 0.17 0.17 0.17 0.66
mistral.devstral-2-123b = 0.4 0.4 0.4 0.4 2
mistral.magistral-small-2509 = 0.5 0.5 0.5 0.5 1.5
mistral.ministral-3-14b-instruct = 0.2 0.2 0.2 0.2 0.2
mistral.ministral-3-3b-instruct = 0.1 0.1 0.1 0.1 0.1
mistral.ministral-3-8b-instruct = 0.15 0.15 0.15 0.15 0.15
mistral.mistral-7b-instruct = 0.15 0.15 0.15 0.15 0.2
mistral.mistral-large-2402 = 4 4 4 4 12
mistral.mistral-large-3-675b-instruct = 0.5 0.5 0.5 0.5 1.5
mistral.mistral-small-2402 = 1 1 1 1 3
mistral.mixtral-8x7b-instruct = 0.45 0.45 0.45 0.45 0.7
mistral.pixtral-large-2502 = 2 2 2 2 6
mistral.voxtral-mini-3b-2507 = 0.04 0.04 0.04 0.04 0.04
mistral.voxtral-small-24b-2507 = 0.1 0.1 0.1 0.1 0.3
nvidia.nemotron-nano-3-30b = 0.06 0.06 0.06 0.06 0.24
nvidia.nemotron-nano-9b = 0.06 0.06 0.06 0.06 0.23
nvidia.nemotron-super-3-120b = 0.15 0.15 0.15 0.15 0.65
openai.gpt-5.4 = 2.75 0.275 2.75 2.75 16.5
openai.gpt-5.5 = 5.5 0.55 5.5 5.5 33
openai.gpt-oss-120b-1 = 0.15 0.15 0.15 0.15 0.6
openai.gpt-oss-20b-1 = 0.07 0.07 0.07 0.07 0.3
qwen.qwen3-32b = 0.15 0.15 0.15 0.15 0.6
qwen.qwen3-coder-30b-a3b = 0.15 0.15 0.15 0.15 0.6
qwen.qwen3-coder-480b-a35b = 0.45 0.45 0.45 0.45 1.8
qwen.qwen3-vl-235b-a22b = 0.53 0.53 0.53 0.53 2.66
amazon.nova-2-lite = 0.33 0.0825 0.33 0.33 2.75
anthropic.claude-3-5-haiku = 0.8 0.08 1 1.6 4
anthropic.claude-3-5-sonnet = 3 0.3 3.75 6 15
anthropic.claude-3-7-sonnet = 3 0.3 3.75 6 15
anthropic.claude-3-haiku = 0.25 0.25 0.25 0.25 1.25
anthropic.claude-3-opus = 15 15 15 15 75
anthropic.claude-3-sonnet = 3 0.3 3.75 6 15
anthropic.claude-fable-5-1 = 11 0.275 13.75 22 55
anthropic.claude-fable-5-2 = 8.8 0.22 11 17.6 44
anthropic.claude-fable-5 = 11 1.1 13.75 22 55
anthropic.claude-haiku-4-5 = 1.1 0.11 1.375 2.2 5.5
anthropic.claude-haiku-5-5 = 0.11 0.011 0.1375 0.22 0.55 >100000 0.55 0.055 0.6875 1.1 2.75
anthropic.claude-mythos-5-2 = 8.8 0.22 11 17.6 44
anthropic.claude-opus-4-1 = 15 1.5 18.75 30 75
anthropic.claude-opus-4 = 15 1.5 18.75 30 75
anthropic.claude-opus-4-5 = 5.5 0.55 6.875 11 27.5
anthropic.claude-opus-4-6 = 5.5 0.55 6.875 11 27.5
anthropic.claude-opus-4-7 = 5.5 0.55 6.875 11 27.5
anthropic.claude-opus-4-8 = 5.5 0.55 6.875 11 27.5
anthropic.claude-opus-5 = 5.5 0.55 6.875 11 27.5
anthropic.claude-opus-5-5 = 4.4 0.22 5.5 8.8 22
anthropic.claude-sonnet-4 = 3 0.3 3.75 6 15
anthropic.claude-sonnet-4-5 = 3.3 0.33 4.125 6.6 16.5
anthropic.claude-sonnet-4-6 = 3.3 0.33 4.125 6.6 16.5
anthropic.claude-sonnet-5-5 = 2.2 0.11 2.75 4.4 11
anthropic.claude-sonnet-5 = 2.2 0.22 2.75 4.4 11
moonshotai.kimi-k3 = 3.3 0.33 4.125 4.125 16.5
moonshotai.kimi-k3.1 = 4.4 0.22 5.5 5.5 22
openai.gpt-5.6-luna = 1.1 0.11 1.375 1.375 6.6 | from 2026-07-30 0.22 0.022 0.275 0.275 1.32 >272000 0.44 0.044 0.55 0.55 1.98
openai.gpt-5.6-sol = 5.5 0.55 6.875 6.875 33 >272000 11 1.1 13.75 13.75 49.5 | from 2026-08-21 4.4 0.44 5.5 5.5 22 >272000 8.8 0.88 11 11 33
openai.gpt-5.6-terra = 2.75 0.275 3.4375 3.4375 16.5 | from 2026-07-30 2.2 0.22 2.75 2.75 13.2 >272000 4.4 0.44 5.5 5.5 19.8
openai.gpt-6-astra = 11 1.1 13.75 13.75 55 >272000 22 2.2 27.5 27.5 82.5
openai.gpt-6-luna = 0.11 0.011 0.1375 0.1375 0.55 >272000 0.22 0.022 0.275 0.275 0.825
openai.gpt-6-sol = 2.2 0.22 2.75 2.75 11 >272000 4.4 0.44 5.5 5.5 16.5
openai.gpt-6.1-sol = 2.2 0.11 2.75 2.75 11 >272000 4.4 0.22 5.5 5.5 16.5
openai.gpt-6.1-terra = 1.1 0.055 1.375 1.375 5.5 >272000 2.2 0.11 2.75 2.75 8.25
zai.glm-5.3 = 1.848 0.3432 2.31 2.31 5.808
writer.palmyra-x4 = 2.5 2.5 2.5 2.5 10
writer.palmyra-x5 = 0.6 0.6 0.6 0.6 6

[groq]
deepseek-r1-distill-llama-70b = 0.75 0.75 0.75 0.75 0.99
gemma-7b-it = 0.07 0.07 0.07 0.07 0.07
gemma2-9b-it gemma2-9b = 0.2 0.2 0.2 0.2 0.2
llama-3.1-405b-reasoning = 0.59 0.59 0.59 0.59 0.79
llama-3.1-70b-versatile = 0.59 0.59 0.59 0.59 0.79
llama-3.1-8b-instant = 0.05 0.05 0.05 0.05 0.08
llama-3.2-11b-text-preview = 0.18 0.18 0.18 0.18 0.18
llama-3.2-11b-vision-preview = 0.18 0.18 0.18 0.18 0.18
llama-3.2-1b-preview = 0.04 0.04 0.04 0.04 0.04
llama-3.2-3b-preview = 0.06 0.06 0.06 0.06 0.06
llama-3.2-90b-text-preview = 0.9 0.9 0.9 0.9 0.9
llama-3.2-90b-vision-preview = 0.9 0.9 0.9 0.9 0.9
llama-3.3-70b-specdec = 0.59 0.59 0.59 0.59 0.99
llama-3.3-70b-versatile = 0.59 0.59 0.59 0.59 0.79
llama-guard-3-8b = 0.2 0.2 0.2 0.2 0.2
llama2-70b-4096 = 0.7 0.7 0.7 0.7 0.8
llama3-70b-8192 = 0.59 0.59 0.59 0.59 0.79
llama3-8b-8192 = 0.05 0.05 0.05 0.05 0.08
llama3-groq-70b-8192-tool-use-preview = 0.89 0.89 0.89 0.89 0.89
llama3-groq-8b-8192-tool-use-preview = 0.19 0.19 0.19 0.19 0.19
meta-llama/llama-4-maverick-17b-128e-instruct = 0.2 0.2 0.2 0.2 0.6
meta-llama/llama-4-scout-17b-16e-instruct = 0.11 0.11 0.11 0.11 0.34
meta-llama/llama-guard-4-12b = 0.2 0.2 0.2 0.2 0.2
meta-llama/llama-prompt-guard-2-22m = 0.03 0.03 0.03 0.03 0.03
meta-llama/llama-prompt-guard-2-86m = 0.04 0.04 0.04 0.04 0.04
mistral-saba-24b = 0.79 0.79 0.79 0.79 0.79
mixtral-8x7b-32768 = 0.24 0.24 0.24 0.24 0.24
moonshotai/kimi-k2-instruct moonshotai/kimi-k2-instruct-0905 = 1 0.5 1 1 3
openai/gpt-oss-120b = 0.15 0.075 0.15 0.15 0.6
openai/gpt-oss-20b = 0.075 0.0375 0.075 0.075 0.3
openai/gpt-oss-safeguard-20b = 0.075 0.0375 0.075 0.075 0.3
qwen/qwen3-32b = 0.29 0.29 0.29 0.29 0.59
qwen/qwen3.8-27b = 0.8 0.8 0.8 0.8 4

[cerebras]
gemma-4-31b = 0.99 0.99 0.99 0.99 1.49
gpt-oss-120b = 0.35 0.35 0.35 0.35 0.75
llama-3.3-70b = 0.85 0.85 0.85 0.85 1.2
llama3.1-8b = 0.1 0.1 0.1 0.1 0.1
qwen-3-32b = 0.4 0.4 0.4 0.4 0.8
qwen-3.8-27b = 0.99 0.99 0.99 0.99 1.49
zai-glm-4.7 = 2.25 2.25 2.25 2.25 2.75

[fireworks]
deepseek-r1-0528 = 3 3 3 3 8
deepseek-v3-0324 = 0.9 0.9 0.9 0.9 0.9
deepseek-v3p2 = 0.56 0.28 0.56 0.56 1.68
deepseek-v4-flash deepseek-v4-flash-0731 = 0.14 0.028 0.14 0.14 0.28
deepseek-v4-pro = 1.74 0.145 1.74 1.74 3.48
deepseek-v4p1-flash = 0.3 0.006 0.3 0.3 1.2
deepseek-v4p1-flash-1017 = 0.3 0.006 0.3 0.3 1.2
deepseek-v4p1-flash-1017-ultrafast = 2.4 0.048 2.4 2.4 9.6
deepseek-v4p1-flash-1017-us = 0.45 0.009 0.45 0.45 1.8
deepseek-v4p1-flash-us = 0.45 0.009 0.45 0.45 1.8
ember-1 = 3 0.3 3 3 15
gemma-3-27b-it = 0.1 0.1 0.1 0.1 0.1
glm-4p7 = 0.6 0.6 0.6 0.6 2.2
glm-5p1 = 1.4 0.26 1.4 1.4 4.4
glm-5p1-fast = 2.8 0.52 2.8 2.8 8.8
glm-5p2 = 1.4 0.14 1.4 1.4 4.4
glm-5p2-fast glm-5p2-fast-us = 2.1 0.21 2.1 2.1 6.6
glm-5p3 = 1.4 0.26 1.4 1.4 4.4
glm-5p3-fast = 2.1 0.39 2.1 2.1 6.6
glm-5p3-flash = 0.15 0.03 0.15 0.15 0.5
glm-5p3-flash-us = 0.225 0.045 0.225 0.225 0.75
glm-5p3-us = 2.1 0.39 2.1 2.1 6.6
gpt-oss-120b = 0.15 0.014 0.15 0.15 0.6 | from 2026-10-19 0.15 0.015 0.15 0.15 0.6
gpt-oss-20b = 0.07 0.035 0.07 0.07 0.3
inkling = 1 0.17 1 1 4.05
kimi-k2p5 = 0.6 0.1 0.6 0.6 3
kimi-k2p6 = 0.95 0.16 0.95 0.95 4
kimi-k2p6-fast = 2 0.3 2 2 8
kimi-k2p7-code = 0.95 0.19 0.95 0.95 4
kimi-k2p7-code-fast = 1.9 0.38 1.9 1.9 8
kimi-k3 = 3 0.3 3 3 15
kimi-k3-fast = 4.5 0.45 4.5 4.5 22.5
kimi-k3-us = 3.3 0.33 3.3 3.3 16.5 | from 2026-09-01 4.5 0.45 4.5 4.5 22.5
kimi-k3p1-pro = 2 0.2 2 2 10
llama-v3p1-8b-instruct = 0.2 0.2 0.2 0.2 0.2
llama4-maverick-instruct-basic = 0.22 0.22 0.22 0.22 0.88
minimax-m2p1 = 0.3 0.3 0.3 0.3 1.2
minimax-m2p7 = 0.3 0.06 0.3 0.3 1.2
minimax-m3 = 0.3 0.06 0.3 0.3 1.2
muse-spark-open = 1.25 0.15 1.25 1.25 4.25
nemotron-3-ultra-nvfp4 = 0.6 0.12 0.6 0.6 2.4
nemotron-lightning-3p5-30b-a3b = 0.05 0.01 0.05 0.05 0.2
qwen2p5-vl-72b-instruct = 0.9 0.9 0.9 0.9 0.9
qwen3-235b-a22b = 0.22 0.22 0.22 0.22 0.88
qwen3p6-plus = 0.5 0.1 0.5 0.5 3
qwen3p7-plus = 0.4 0.08 0.4 0.4 1.6
qwen3p8-max = 2 0.25 2 2 6
ultramarine-1-flash-us = 0.225 0.045 0.225 0.225 0.75 | from 2026-11-03 0.15 0.03 0.15 0.15 0.5

[together]
austism/chronos-hermes-13b = 0.3 0.3 0.3 0.3 0.3
gryphe/mythomax-l2-13b = 0.3 0.3 0.3 0.3 0.3
minimaxai/minimax-m3 = 0.3 0.06 0.3 0.3 1.2
minimaxai/minimax-m3.1-flash = 0.15 0.015 0.15 0.15 0.6
nexusflow/nexusraven-v2-13b = 0.3 0.3 0.3 0.3 0.3
nousresearch/nous-capybara-7b-v1p9 = 0.2 0.2 0.2 0.2 0.2
nousresearch/nous-hermes-2-mixtral-8x7b-dpo = 0.9 0.9 0.9 0.9 0.9
nousresearch/nous-hermes-2-mixtral-8x7b-sft = 0.9 0.9 0.9 0.9 0.9
nousresearch/nous-hermes-2-yi-34b = 0.8 0.8 0.8 0.8 0.8
nousresearch/nous-hermes-llama2-13b = 0.225 0.225 0.225 0.225 0.225
nousresearch/nous-hermes-llama-2-7b = 0.2 0.2 0.2 0.2 0.2
open-orca/mistral-7b-openorca = 0.2 0.2 0.2 0.2 0.2
qwen/qwen1.5-0.5b qwen/qwen1.5-0.5b-chat = 0.1 0.1 0.1 0.1 0.1
qwen/qwen1.5-1.8b qwen/qwen1.5-1.8b-chat = 0.1 0.1 0.1 0.1 0.1
qwen/qwen1.5-14b qwen/qwen1.5-14b-chat = 0.3 0.3 0.3 0.3 0.3
qwen/qwen1.5-4b qwen/qwen1.5-4b-chat = 0.1 0.1 0.1 0.1 0.1
qwen/qwen1.5-72b = 0.9 0.9 0.9 0.9 0.9
qwen/qwen1.5-7b qwen/qwen1.5-7b-chat = 0.2 0.2 0.2 0.2 0.2
qwen/qwen3.5-9b = 0.17 0.17 0.17 0.17 0.25
qwen/qwen3.6-plus = 0.5 0.5 0.5 0.5 3
qwen/qwen3.7-max = 2.5 0.5 2.5 2.5 7.5
qwen/qwen3.7-plus = 0.32 0.32 0.32 0.32 1.28
qwen/qwen3.8-2.4t-a95b = 2 0.5 2 2 6
qwen/qwen3.8-flash = 0.15 0.15 0.15 0.15 0.47
undi95/remm-slerp-l2-13b = 0.3 0.3 0.3 0.3 0.3
undi95/toppy-m-7b = 0.2 0.2 0.2 0.2 0.2
wizardlm/wizardlm-13b-v1.2 = 0.3 0.3 0.3 0.3 0.3
allenai/olmo-7b allenai/olmo-7b-instruct allenai/olmo-7b-twin-2t = 0.2 0.2 0.2 0.2 0.2
codellama/codellama-13b-instruct-hf = 0.225 0.225 0.225 0.225 0.225
codellama/codellama-34b-instruct-hf = 0.776 0.776 0.776 0.776 0.776
codellama/codellama-70b-instruct-hf = 0.9 0.9 0.9 0.9 0.9
codellama/codellama-7b-instruct-hf = 0.2 0.2 0.2 0.2 0.2
deepseek-ai/deepseek-v4-pro-0813 = 1.32 0.13 1.32 1.32 3.96
deepseek-ai/deepseek-v4.1-flash deepseek-ai/deepseek-v4.1-flash-1017 = 0.3 0.006 0.3 0.3 1.2
deepseek-ai/deepseek-coder-33b-instruct = 0.8 0.8 0.8 0.8 0.8
garage-baind/platypus2-70b-instruct = 0.9 0.9 0.9 0.9 0.9
google/gemma-2b google/gemma-2b-it = 0.1 0.1 0.1 0.1 0.1
google/gemma-7b google/gemma-7b-it = 0.2 0.2 0.2 0.2 0.2
lmsys/vicuna-13b-v1.5 = 0.3 0.3 0.3 0.3 0.3
lmsys/vicuna-7b-v1.5 = 0.2 0.2 0.2 0.2 0.2
meta-llama/llama-2-13b-chat-hf = 0.225 0.225 0.225 0.225 0.225
meta-llama/llama-2-70b-chat-hf = 0.9 0.9 0.9 0.9 0.9
meta-llama/llama-2-7b-chat-hf = 0.2 0.2 0.2 0.2 0.2
meta-llama/llama-3-70b-chat-hf = 0.9 0.9 0.9 0.9 0.9
meta-llama/llama-3-8b-chat-hf = 0.2 0.2 0.2 0.2 0.2
meta-llama/llama-3.3-70b-instruct-turbo = 0.88 0.88 0.88 0.88 0.88
meta-llama/llama-4-maverick-17b-128e-instruct-fp8 = 0.27 0.27 0.27 0.27 0.85
meta-llama/llama-4-scout-17b-16e-instruct = 0.18 0.18 0.18 0.18 0.59
meta-llama/meta-llama-3-70b-instruct-lite = 0.54 0.54 0.54 0.54 0.54
meta-llama/meta-llama-3-70b-instruct-turbo = 0.88 0.88 0.88 0.88 0.88
meta-llama/meta-llama-3-8b-instruct-lite = 0.1 0.1 0.1 0.1 0.1
meta-llama/meta-llama-3-8b-instruct-turbo = 0.18 0.18 0.18 0.18 0.18
meta-llama/meta-llama-3.1-405b-instruct-turbo = 3.5 3.5 3.5 3.5 3.5
meta-llama/meta-llama-3.1-70b-instruct-turbo = 0.88 0.88 0.88 0.88 0.88
meta-llama/meta-llama-3.1-8b-instruct-turbo = 0.18 0.18 0.18 0.18 0.18
meta-llama/meta-llama-3.3-70b-instruct-turbo = 0.88 0.88 0.88 0.88 0.88
meta-models/muse-glimmer-30b = 0.35 0.04 0.35 0.35 1.5
meta-models/muse-spark-open-816b-a42b = 1.25 0.15 1.25 1.25 4.25
microsoft/wizardlm-2-8x22b = 1.2 1.2 1.2 1.2 1.2
microsoft/phi-2 = 0.1 0.1 0.1 0.1 0.1
mistralai/mistral-7b-instruct-v0.1 = 0.2 0.2 0.2 0.2 0.2
mistralai/mistral-7b-instruct-v0.2 = 0.2 0.2 0.2 0.2 0.2
mistralai/mistral-7b-v0.1 = 0.2 0.2 0.2 0.2 0.2
mistralai/mixtral-8x22b-instruct-v0.1 = 2.4 2.4 2.4 2.4 2.4
mistralai/mixtral-8x7b-instruct-v0.1 = 0.9 0.9 0.9 0.9 0.9
mistralai/mixtral-8x7b-v0.1 = 0.9 0.9 0.9 0.9 0.9
moonshotai/kimi-k3 = 3 0.3 3 3 15
moonshotai/kimi-k3.1-pro = 2 0.2 2 2 10
nvidia/nvidia-nemotron-3.5-super-vl = 0.15 0.02 0.15 0.15 0.5
openai/gpt-oss-120b = 0.15 0.15 0.15 0.15 0.6
openchat/openchat-3.5-1210 = 0.2 0.2 0.2 0.2 0.2
reflection/beam-1.0-501b-a23b = 0.4 0.04 0.4 0.4 1.2
ricursive-ai/ripple-65b-preview = 0.2 0.2 0.2 0.2 0.6
snorkelai/snorkel-mistral-pairrm-dpo = 0.2 0.2 0.2 0.2 0.2
teknium/openhermes-2-mistral-7b = 0.2 0.2 0.2 0.2 0.2
teknium/openhermes-2p5-mistral-7b = 0.2 0.2 0.2 0.2 0.2
thinkingmachines/inkling = 1 0.17 1 1 4.05
togethercomputer/llama-2-7b-32k-instruct = 0.2 0.2 0.2 0.2 0.2
togethercomputer/redpajama-incite-7b-base = 0.2 0.2 0.2 0.2 0.2
togethercomputer/redpajama-incite-7b-chat = 0.2 0.2 0.2 0.2 0.2
togethercomputer/redpajama-incite-7b-instruct = 0.2 0.2 0.2 0.2 0.2
togethercomputer/redpajama-incite-base-3b-v1 = 0.1 0.1 0.1 0.1 0.1
togethercomputer/redpajama-incite-chat-3b-v1 = 0.1 0.1 0.1 0.1 0.1
togethercomputer/redpajama-incite-instruct-3b-v1 = 0.1 0.1 0.1 0.1 0.1
togethercomputer/stripedhyena-hessian-7b = 0.2 0.2 0.2 0.2 0.2
togethercomputer/stripedhyena-nous-7b = 0.2 0.2 0.2 0.2 0.2
togethercomputer/alpaca-7b = 0.2 0.2 0.2 0.2 0.2
upstage/solar-10.7b-instruct-v1.0 = 0.3 0.3 0.3 0.3 0.3
zai-org/glm-5.2 = 1.4 0.26 1.4 1.4 4.4
zai-org/glm-5.3 = 1.4 0.26 1.4 1.4 4.4
zai-org/glm-5.3-flash = 0.15 0.03 0.15 0.15 0.5
zero-one-ai/yi-34b = 0.8 0.8 0.8 0.8 0.8
zero-one-ai/yi-6b = 0.2 0.2 0.2 0.2 0.2
"""
