"""llama.cpp behind the core's Model protocol: the only importer of llama_cpp."""
