"""Chat templates in the manner of well-known models, cut down to what is peculiar to each."""

CHATML = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

LLAMA_3 = """\
{%- for message in messages %}
    {%- set head = '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' %}
    {%- if loop.first %}{% set head = bos_token + head %}{% endif %}
    {{- head + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}
"""

GEMMA = """\
{{- bos_token }}
{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for message in messages %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Roles must alternate user/assistant/user/...') }}
    {%- endif %}
    {%- set role = 'model' if message.role == 'assistant' else message.role %}
    {{- '<start_of_turn>' + role + '\\n' + message.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}
"""

MISTRAL = """\
{%- set ns = namespace(system='') %}
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- set ns.system = message.content + '\\n\\n' %}
        {%- continue %}
    {%- endif %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' + ns.system + message.content + '[/INST]' }}
        {%- set ns.system = '' %}
    {%- else %}
        {{- ' ' + message.content + eos_token }}
    {%- endif %}
{%- endfor %}
"""

THINKING = """\
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if content is string and message.role == 'assistant' and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' ~ message.role ~ '\\n' ~ content ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""
