//! Answers questions about symbols and packages. `apropos` searches names, `describe_symbol`
//! describes one symbol, `find_definition` lists its definitions, and `package_info` describes a
//! package. `facts` collects short descriptions of many symbols for the SCIP export, and `names`
//! lists the names that completion offers. Names are resolved against the index. Descriptions come
//! from the image, and positions are computed from the source files that were loaded.

pub mod apropos;
pub mod describe_symbol;
pub mod facts;
pub mod find_definition;
pub mod names;
pub mod package_info;
