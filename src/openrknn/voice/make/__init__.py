"""Sets of models, made from what their authors published: one module a family. Needs the compiler."""
